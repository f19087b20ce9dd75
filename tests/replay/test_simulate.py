"""Counterfactual searches: faithful where the record is, silent where it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.cli.exits import Failure
from engine.cli.main import cli
from engine.config import Config
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AttemptAbandoned,
    Body,
    EvaluationFinished,
    NodeSelected,
    Price,
    RunPaused,
    RunResumed,
    RunStarted,
    Usage,
)
from events.outcomes import Correct
from replay.simulate.estimate import Estimate, changed_keys_allowed, estimate
from replay.simulate.record import NotComparable, Record, record_of
from replay.simulate.search import Simulation, simulate
from tests.engine.test_planners import planned
from tests.engine.world import World, config_of, team_of
from tests.thorough import examples

LOGS = Path(__file__).parents[1] / "histories"
SOFTMAX = LOGS / "0.1" / "stark_softmax_h200.db"

searches = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["stark", "best_of_k"]),
        "epsilon": st.sampled_from([0.0, 0.3, 0.9]),
        "root_throttle": st.sampled_from([None, 1, 5]),
        "dead_branch": st.sampled_from([None, 0, 3]),
        "leaf_bias": st.booleans(),
        "seed": st.integers(0, 50),
    }
)
chances = st.integers(0, 10**6)


def recorded(bodies: list[Body], name: str = "log") -> Record:
    return record_of(bodies, name, [name])


def searched(search: dict[str, Any], chance: int, **world: float) -> tuple[World, Record]:
    run = World(config_of(attempts=20, **search), chance, **world).run()
    return run, recorded(run.bodies)


def changed(config: Config, **search: Any) -> Config:
    return msgspec.structs.replace(config, search=msgspec.structs.replace(config.search, **search))


def selections(bodies: list[Body]) -> list[NodeSelected]:
    return [body for body in bodies if isinstance(body, NodeSelected)]


def speedups(bodies: list[Body]) -> list[float | None]:
    """The best after each attempt, the slow way."""
    best: float | None = None
    found = []
    for body in bodies:
        if isinstance(body, EvaluationFinished) and isinstance(body.outcome, Correct):
            best = max(best or 0.0, 10 / body.outcome.runtime_ms)
        if isinstance(body, EvaluationFinished | AttemptAbandoned):
            found.append(best)
    return found


@settings(max_examples=examples(60), deadline=None)
@given(searches, chances)
def test_the_recorded_policy_reproduces_the_recorded_search(
    search: dict[str, Any], chance: int
) -> None:
    world, record = searched(search, chance)
    done = simulate([record], record.config, team_of, order=0)
    # The whole body of every selection: node, draws, and the digest of all that came before.
    assert done.selections == selections(world.bodies)
    assert done.taken == [str(node) for node in range(1, done.attempts + 1)]
    assert done.best == record.best == speedups(world.bodies)
    assert (done.coverage, done.wanted) == (1.0, None)
    assert done.stopped == world.state.stop_reason


@settings(max_examples=examples(40), deadline=None)
@given(searches, chances)
def test_trouble_while_it_was_recorded_changes_nothing(search: dict[str, Any], chance: int) -> None:
    world, record = searched(search, chance, trouble=0.2)
    done = simulate([record], record.config, team_of, order=0)
    picked = [(s.node, s.rule, s.repair, s.draws, s.eligible, s.visit) for s in done.selections]
    assert picked == [
        (s.node, s.rule, s.repair, s.draws, s.eligible, s.visit) for s in selections(world.bodies)
    ]
    assert done.best == speedups(world.bodies)


class Dear(World):
    """Planners of different prices, of which one may be down; calls fail that took something."""

    down: str = ""
    cuts: float = 0.3

    def _append(self, body: Body) -> None:
        if isinstance(body, RunStarted):
            (price,) = body.prices.values()
            dear = {name: getattr(price, name) * 9 for name in price.__struct_fields__}
            prices = {"fake:m": price, "fake:cheap": price, "fake:dear": Price(**dear)}
            body = msgspec.structs.replace(body, prices=prices)
        super()._append(body)

    def _answer(self, called: AgentCalled) -> None:
        cut = self.random.random() < self.cuts
        if not cut and called.model != self.down:
            super()._answer(called)
            return
        self.feed(
            AgentFailed(
                attempt=called.attempt, role=called.role, call=called.call, try_=called.try_,
                error="server_error", message="cut", retryable=True, retry_after_ms=None,
                usage=Usage(input_tokens=self.random.randrange(900)) if cut else None,
            )
        )  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(
    st.fixed_dictionaries({"seed": st.integers(0, 50), "usd": st.floats(0.02, 0.8)}), chances,
    st.sampled_from(["", "fake:cheap", "fake:dear"]), st.sampled_from([0.0, 0.3]),
)  # fmt: skip
def test_what_failed_tries_took_and_stand_ins_replies_cost_is_simulated(
    search: dict[str, Any], chance: int, down: str, cuts: float
) -> None:
    """So that money runs out where it ran out in the record, whoever was asked."""
    config = planned(config_of(attempts=20, **search), ["fake:cheap", "fake:dear"], "dollar")
    world = Dear(config, chance)
    world.down, world.cuts = down, cuts
    bodies = world.run(5000).bodies
    assume(not any(isinstance(body, RunPaused) for body in bodies))
    # One that money ran out in the middle of is no outcome.
    assume(not world.state.attempts)
    done = simulate([recorded(bodies)], config, team_of, order=0)
    assert done.wanted is None
    assert (done.attempts, done.stopped) == (world.state.attempts_ended, world.state.stop_reason)


@settings(max_examples=examples(40), deadline=None)
@given(searches, searches, chances, st.integers(1, 40))
def test_a_fork_answers_with_what_it_shares_and_what_it_made(
    search: dict[str, Any], other: dict[str, Any], chance: int, at: int
) -> None:
    parent = World(config_of(attempts=12, **search), chance)
    parent.run(at)
    parent.feed(RunResumed(versions={}, extra_attempts=3))
    fork = parent.fork(len(parent.bodies), config_of(attempts=20, **other)).run()
    record = recorded(fork.bodies)
    told = fork.state.started
    assert told is not None
    assert (record.started, record.config) == (told, fork.state.config)
    policies = {record.configs[0].search.policy, told.config["search"]["policy"]}
    assert (
        f"recorded under {' and '.join(sorted(policies))},"
        in estimated([record], record.config).warnings[0]
    )
    assert (record.attempts, record.attempts_allowed) == (fork.state.attempts_ended, 20)
    assert record.best == speedups(fork.bodies)
    check_is_recorded(simulate([record], record.config, team_of, order=0), [record])


def check_is_recorded(done: Simulation, records: list[Record]) -> None:
    """Every attempt is a recorded child of what was selected, and used once."""
    assert len(set(done.taken)) == len(done.taken) == done.attempts == len(done.best)

    def place(node: int) -> tuple[int, int]:
        log, _, number = done.taken[node - 1].rpartition(":")
        return (int(log) - 1 if log else 0), int(number)

    for selected in done.selections:
        log, number = place(selected.attempt)
        (child,) = (
            child
            for children in records[log].children.values()
            for child in children
            if child.node == number
        )
        parent = (log, 0) if selected.node == 0 else place(selected.node)
        assert (log, child.parent) == parent
        assert child.repair == selected.repair
    if done.wanted is not None:
        log, _, number = done.wanted.rpartition(":")
        logs = range(len(records)) if number == "0" else [int(log) - 1 if log else 0]
        left = [
            (at, child.node) for at in logs for child in records[at].children.get(int(number), [])
        ]
        assert set(left) <= {place(attempt) for attempt in range(1, done.attempts + 1)}


@settings(max_examples=examples(60), deadline=None)
@given(searches, searches, chances, st.integers(0, 5), st.booleans())
def test_another_policy_gets_recorded_children_of_what_it_selects_and_no_others(
    search: dict[str, Any], other: dict[str, Any], chance: int, order: int, pooled: bool
) -> None:
    worlds = [searched(search, chance)[0]]
    if pooled:
        worlds.append(searched(search, chance + 1)[0])
    records = [recorded(world.bodies, str(number)) for number, world in enumerate(worlds)]
    config = changed(records[0].config, **other)
    done = simulate(records, config, team_of, order=order)
    check_is_recorded(done, records)
    assert done.attempts <= 20
    if done.stopped == "no_outcome":
        assert done.attempts < 20
        assert done.coverage == done.attempts / 20
    else:
        assert (done.coverage, done.wanted) == (1.0, None)
    assert simulate(records, config, team_of, order=order) == done


def test_an_estimate_is_over_the_seeds_that_got_there() -> None:
    _, record = searched({"epsilon": 0.3}, 7)
    made = estimated([record], record.config)
    assert made.simulations[0].coverage == 1.0
    for point in made.curve:
        there = [done for done in made.simulations if done.attempts >= point.attempt]
        best = [b for done in there if (b := done.best[point.attempt - 1]) is not None]
        assert (point.seeds, point.correct) == (len(there), len(best))
        if best:
            assert (point.low, point.high) == (min(best), max(best))
        else:
            assert point.median is None
    assert made.coverage == sum(done.coverage for done in made.simulations) / 20
    assert made.reached == sum(done.stopped != "no_outcome" for done in made.simulations) < 20
    assert any("windows" in warning for warning in made.warnings)
    assert any("recorded search itself" in warning for warning in made.warnings)
    assert any("fair sample" in warning for warning in made.warnings)


def test_pooled_scores_are_ratios_to_the_own_root() -> None:
    world, one = searched({"epsilon": 0.0}, 3)
    slower = [_slowed(body) for body in searched({"epsilon": 0.0}, 4)[0].bodies]
    two = recorded(slower, "slower")
    made = estimated([one, two], one.config)
    fastest = max(b for record in (one, two) for b in record.best if b is not None)
    assert max(point.high or 0 for point in made.curve) <= fastest * (1 + 1e-9)
    assert any("pooled at the root" in warning for warning in made.warnings)
    assert world.state.tree.root.runtime_ms == 10


def _slowed(body: Body) -> Body:
    """As a machine of half the speed would have recorded it."""
    if body.TYPE == "BaselineMeasured":
        return msgspec.structs.replace(body, runtime_ms=20)
    if isinstance(body, EvaluationFinished) and isinstance(body.outcome, Correct):
        outcome = msgspec.structs.replace(body.outcome, runtime_ms=body.outcome.runtime_ms * 2)
        return msgspec.structs.replace(body, outcome=outcome)
    return body


def estimated(records: list[Record], config: Config, **changes: Any) -> Estimate:
    return estimate(records, config, team_of, seeds=20, changed=changes)


def test_what_is_not_comparable_is_refused() -> None:
    world, record = searched({}, 1)
    other = msgspec.structs.replace(record, name="fork", lineage=("fork", "log"))
    with pytest.raises(NotComparable, match="share attempts"):
        estimated([record, other], record.config)
    device = msgspec.structs.replace(record.started, device={"name": "other"})
    with pytest.raises(NotComparable, match="differ in device"):
        estimated(
            [record, msgspec.structs.replace(record, started=device, lineage=("x",))],
            record.config,
        )
    with pytest.raises(NotComparable, match=r"search\.reasks"):
        changed_keys_allowed({"search.reasks": 1})
    with pytest.raises(NotComparable, match="never measured"):
        recorded(world.bodies[:2])


# -- the command ------------------------------------------------------------------------


def ask(*args: object) -> Result:
    return CliRunner().invoke(cli, ["simulate", *map(str, args)])


def test_the_command_prints_one_object() -> None:
    told = ask(SOFTMAX, "--set", "search.epsilon=0.9", "--seeds", 5, "--json")
    made = json.loads(told.stdout)
    assert (made["seeds"], made["attempts"], made["changed"]) == (5, 14, {"search.epsilon": 0.9})
    assert [done["seed"] for done in made["simulations"]] == [0, 1, 2, 3, 4]
    assert made["canned"] is True


def test_the_command_tells_people_coverage_and_bias() -> None:
    told = ask(SOFTMAX, "--seeds", 10, "--attempts", 6)
    assert "10 seeds of 6 attempts (budget.attempts=6)" in told.stdout
    assert "coverage" in told.stdout
    assert "might have answered otherwise" in told.stderr
    assert "several workers" in told.stderr
    assert "canned replies" in told.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([SOFTMAX, LOGS / "stark.db"], "differ in task"),
        ([SOFTMAX, SOFTMAX], "share attempts"),
        ([SOFTMAX, "--policy", "clever"], "known: stark, epsilon_greedy"),
        ([SOFTMAX, "--set", "sandbox.protocol=paper"], "sandbox.protocol can't be simulated"),
        ([SOFTMAX, "--set", "search.epsilon=7"], "between 0 and 1"),
    ],
)
def test_the_command_refuses(args: list[object], words: str) -> None:
    refused = ask(*args)
    assert isinstance(refused.exception, Failure)
    assert refused.exception.code == 2
    assert words in str(refused.exception)
