"""The core against a naive model, and its own laws, over simulated runs of any shape."""

from __future__ import annotations

from collections import Counter
from operator import eq
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import Budget, Config
from engine.core.decide import decide
from engine.core.draws import COIN, DrawKey, draw, sample
from engine.core.evolve import evolve
from engine.core.frontier import OrderedIds
from engine.core.policies import POLICIES
from engine.core.state import State
from events.bodies import (
    AgentCalled,
    AttemptAbandoned,
    BudgetExhausted,
    EvaluationFinished,
    NodeSelected,
    RunStopped,
)
from replay.verify import replay
from tests.engine import naive
from tests.engine.world import World, as_events, config_of, team_of
from tests.thorough import examples

configs = st.builds(
    config_of,
    attempts=st.integers(1, 40),
    workers=st.sampled_from([1, 1, 2, 4, 8]),
    seed=st.integers(0, 2**31),
    epsilon=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    root_throttle=st.sampled_from([None, 1, 2, 5]),
    dead_branch=st.sampled_from([None, 0, 1, 3]),
    leaf_bias=st.booleans(),
    leaders=st.integers(0, 3),
    window_nodes=st.integers(2, 6),
    window_sampling=st.sampled_from(["keep_selected", "literal"]),
    windows=st.booleans(),
    policy=st.sampled_from(["stark"] * len(POLICIES) + list(POLICIES)),
    team=st.sampled_from(["plan_code_debug", "plan_code_debug", "single"]),
    repairs=st.sampled_from([True, True, False]),
    reasks=st.integers(0, 2),
    call_tries=st.integers(1, 3),
)
worlds = st.builds(
    lambda config, chance, trouble, failing: World(
        config, chance, trouble=trouble, failing=failing
    ).run(),
    configs,
    st.integers(0, 2**31),
    st.sampled_from([0.0, 0.0, 0.1, 0.3]),
    st.sampled_from([0.1, 0.5, 0.9, 1.0]),
)
KEY = DrawKey(7, "task")
GOLDEN_COINS = [1304932427, 366896425, 1115073261]
GOLDEN_SAMPLE = [7, 9, 12, 13, 17]
deep = settings(max_examples=examples(150), deadline=None)


@given(worlds)
@deep
def test_every_run_ends_and_uses_its_attempts(world: World) -> None:
    stopped = world.bodies[-1]
    assert isinstance(stopped, RunStopped)
    ended = sum(isinstance(b, EvaluationFinished | AttemptAbandoned) for b in world.bodies)
    started = sum(isinstance(body, NodeSelected) for body in world.bodies)
    assert started == ended == world.state.attempts_ended
    if stopped.status == "finished":
        assert started == world.state.granted.attempts
    else:
        assert stopped.reason == "nothing_eligible"
    best = min(
        (n for n in world.state.tree.nodes.values() if n.id and n.runtime_ms is not None),
        key=lambda n: (n.runtime_ms, n.id),
        default=None,
    )
    assert stopped.best == (best.id if best else None)


@given(worlds)
@deep
def test_replay_verifies_any_interleaving(world: World) -> None:
    report = replay(as_events(world.bodies), team_of)
    assert report.difference is None
    assert report.digest == world.state.digest
    assert report.decisions == sum(body.KIND == "decision" for body in world.bodies)


@given(worlds, st.data())
@deep
def test_fold_of_a_prefix_then_the_rest_is_the_fold_of_all(
    world: World, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(world.bodies)))
    state = State(team_of)
    for body in world.bodies[:cut]:
        state = evolve(state, body)
    decide(state)  # looking must not change anything
    for body in world.bodies[cut:]:
        state = evolve(state, body)
    assert state.digest == world.state.digest
    assert state.tree.nodes == world.state.tree.nodes
    assert state.attempts == world.state.attempts
    assert list(state.tree.leaderboard()) == list(world.state.tree.leaderboard())


@given(worlds)
@deep
def test_selection_and_windows_agree_with_the_naive_model(world: World) -> None:
    search = world.state.config.search
    for at, body in enumerate(world.bodies):
        if isinstance(body, NodeSelected) and search.policy == "stark":
            _check_selection(naive.build(world.bodies[:at]), body, world.state.config)
        if isinstance(body, AgentCalled) and body.try_ == 1 and body.ask == 0:
            _check_window(naive.build(world.bodies[:at]), body, world.state)


def _check_selection(nodes: dict[int, naive.N], body: NodeSelected, config: Config) -> None:
    search = config.search
    among = naive.eligible(nodes, search)
    explorable = naive.leaves(nodes, search) if search.leaf_bias else among
    assert body.eligible == len(among)
    coin = body.draws.coin
    assert coin is not None
    if coin < search.epsilon * COIN and explorable:
        assert body.draws.leaf is not None
        assert (body.rule, body.node) == ("explore", explorable[body.draws.leaf])
    else:
        tied = naive.best(nodes, search) or among
        assert (body.rule, body.node) == ("exploit", tied[body.draws.tie or 0])
        assert (body.draws.tie is not None) == (len(tied) > 1)
    repairs = search.repairs and search.team != "single"
    assert body.repair == (repairs and body.node != 0 and nodes[body.node].runtime is None)


def _check_window(nodes: dict[int, naive.N], body: AgentCalled, state: State) -> None:
    search = state.config.search
    node = state.tree[body.attempt].parent
    assert node is not None
    expected = {node, 0}
    if search.windows:
        expected = naive.window(nodes, body.role, node, search.leaders)
    assert set(body.pool) == expected
    assert len(body.pool) == len(expected)
    assert len(body.window) == min(len(expected), search.window_nodes)
    assert set(body.window) <= expected
    if search.window_sampling == "keep_selected":
        assert body.window[: len({node, 0})] == list(dict.fromkeys([node, 0]))


def test_one_worker_never_has_two_attempts_in_flight() -> None:
    world = World(config_of(workers=1), 3)
    while world.step():
        assert len(world.state.attempts) <= 1


def test_workers_fill_up_and_spread() -> None:
    world = World(config_of(workers=4, root_throttle=None, epsilon=0.0, attempts=40), 1)
    most = 0
    while world.step():
        most = max(most, len(world.state.attempts))
    assert most == 4


def test_root_throttle_counts_attempts_in_flight() -> None:
    world = World(config_of(workers=8, root_throttle=3), 1)
    world.step()
    assert len(world.state.attempts) == 3


def test_a_run_with_nothing_eligible_says_so() -> None:
    # An evaluated leaf is always eligible, so only a root that may have no child gets here.
    world = World(config_of(root_throttle=0), 5).run()
    assert BudgetExhausted(budget="nothing_eligible") in world.bodies
    assert world.state.stopped == "exhausted"


def _budgeted(chance: int, **budget: Any) -> World:
    config = config_of(attempts=200, root_throttle=None)
    return World(
        msgspec.structs.replace(config, budget=Budget(attempts=200, **budget)), chance
    ).run()


def test_a_target_ends_the_run() -> None:
    world = _budgeted(5, target_speedup=2.0)
    assert (world.state.stopped, world.state.stop_reason) == ("finished", "target_speedup")
    best = world.state.tree.best
    assert best is not None
    assert best.runtime_ms is not None
    assert 10 / best.runtime_ms >= 2.0
    assert world.state.attempts_ended < 200


def test_patience_ends_the_run_and_starts_anew_when_it_is_resumed() -> None:
    world = _budgeted(5, patience=7)
    assert (world.state.stopped, world.state.stop_reason) == ("finished", "patience")
    ended = world.state.attempts_ended
    assert ended == world.state.last_improvement + 7
    world.resume()
    world.run()
    assert world.state.attempts_ended >= ended + 7


def test_best_of_k_repairs_a_failed_sample_once_even_if_the_repair_is_abandoned() -> None:
    config = config_of(policy="best_of_k", reasks=0, attempts=30, windows=False)
    world = World(config, 4, trouble=0.3, failing=1.0).run()
    repaired = [b.node for b in world.bodies if isinstance(b, NodeSelected) and b.repair]
    assert any(isinstance(body, AttemptAbandoned) for body in world.bodies)
    assert len(repaired) == len(set(repaired)) > 3


def test_the_digest_is_made_of_what_happened() -> None:
    one, two = (World(config_of(attempts=5, seed=1), chance).run() for chance in (1, 2))
    assert one.state.digest != two.state.digest
    again = World(config_of(attempts=5, seed=1), 1).run()
    assert one.state.digest == again.state.digest


def test_a_dollar_budget_ends_the_run() -> None:
    world = World(config_of(usd=0.02, attempts=1000, root_throttle=None), 5).run()
    assert BudgetExhausted(budget="usd") in world.bodies
    # Two calls of 4,500 usd_micros an attempt: a third attempt would not fit.
    assert world.state.spend.total.usd_micros == 18_000


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans())))
def test_ordered_ids_are_a_sorted_set(changes: list[tuple[int, bool]]) -> None:
    ids, model = OrderedIds(), set[int]()
    for member, present in changes:
        ids.put(member, present)
        (model.add if present else model.discard)(member)
    assert [ids.nth(index) for index in range(len(ids))] == sorted(model)
    with pytest.raises(IndexError):
        ids.nth(len(ids))


def test_draws_are_fixed_for_ever() -> None:
    """Golden values: a change here would break every log of this format."""
    assert [draw(KEY, "coin", attempt, COIN) for attempt in (1, 2, 3)] == GOLDEN_COINS
    assert sample(KEY, "window/plan", 1, 20, 5) == GOLDEN_SAMPLE


@pytest.mark.parametrize("other", [DrawKey(8, "task"), DrawKey(7, "another task")])
def test_seed_and_task_key_all_draws(other: DrawKey) -> None:
    coins, others = ([draw(key, "coin", n, 2) for n in range(1000)] for key in (KEY, other))
    assert 400 < sum(map(eq, coins, others)) < 600


def test_runs_of_a_suite_do_not_explore_at_the_same_attempts() -> None:
    config = config_of(epsilon=0.3, seed=7, attempts=20)
    explored = {tuple(explorations(World(config, 1, task=task).run())) for task in "abcdef"}
    assert len(explored) == 6
    again = [explorations(World(config, 1, task="a").run()) for _ in range(2)]
    assert again[0] == again[1]


def explorations(world: World) -> list[int]:
    return [b.attempt for b in world.bodies if isinstance(b, NodeSelected) and b.rule == "explore"]


def test_draws_are_uniform() -> None:
    counts = Counter(draw(KEY, "leaf", attempt, 3) for attempt in range(3000))
    assert all(900 < counts[value] < 1100 for value in range(3))
    subsets = Counter(tuple(sample(KEY, "w", attempt, 4, 2)) for attempt in range(3000))
    assert len(subsets) == 6
    assert all(400 < count < 600 for count in subsets.values())
