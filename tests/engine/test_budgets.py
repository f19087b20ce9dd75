"""Budgets: what is begun fits, what stops the run is named, and more of it goes on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import Budget, Config, PlannerConfig, Roles
from engine.core.evolve import evolve
from engine.core.state import State
from events.bodies import (
    AgentCalled,
    BaselineMeasured,
    BudgetExhausted,
    DeadlineReached,
    EvaluationFinished,
    EvaluationRequested,
    RunResumed,
    RunStopped,
    Usage,
)
from replay.verify import replay
from tests.engine.world import World, as_events, config_of, team_of
from tests.thorough import examples

USD, TOKENS = 4_500, 1_100
"""One call in the world, if it is not a dear one."""


def budgeted(workers: int = 1, **budget: Any) -> Config:
    config = config_of(workers=workers, root_throttle=None, deduplicate=False)
    return msgspec.structs.replace(config, budget=Budget(**{"attempts": 60, **budget}))


def used(state: State) -> dict[str, int]:
    total = state.spend.total
    return {"usd": total.usd_micros, "tokens": total.tokens, "device": state.spend.device_ms}


def allowed(state: State) -> dict[str, int | None]:
    granted = state.granted
    return {"usd": granted.usd_micros, "tokens": granted.tokens, "device": granted.device_ms}


worlds = st.builds(
    lambda workers, budget, chance, dear, trouble: World(
        budgeted(workers, **budget), chance, dear=dear, trouble=trouble, lease_s=2.0
    ).run(),
    st.sampled_from([1, 2, 4, 8]),
    st.fixed_dictionaries(
        {},
        optional={
            "usd": st.floats(0.004, 0.3), "tokens": st.integers(1, 90_000),
            "device_s": st.floats(0.1, 60),
        },
    ),
    st.integers(0, 2**31),
    st.sampled_from([1, 10]),
    st.sampled_from([0.0, 0.2]),
)  # fmt: skip


@given(worlds)
@settings(max_examples=examples(60), deadline=None)
def test_nothing_is_begun_beyond_a_budget(world: World) -> None:
    """With nothing left, nothing begins: what a budget is exceeded by was in flight by then."""
    state = State(team_of)
    for body in world.bodies:
        if isinstance(body, AgentCalled | EvaluationRequested):
            names = ("device",) if isinstance(body, EvaluationRequested) else used(state)
            for name in names:
                limit = allowed(state)[name]
                assert limit is None or used(state)[name] < limit, name
        state = evolve(state, body)
    stopped = world.bodies[-1]
    assert isinstance(stopped, RunStopped)
    if stopped.status == "exhausted":
        assert stopped.reason in ("usd", "tokens", "device")
    assert replay(as_events(world.bodies), team_of).difference is None


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize(
    ("budget", "name"),
    [({"usd": 20.4 * USD / 1e6}, "usd"), ({"tokens": 20 * TOKENS + 9}, "tokens")],
)
def test_calls_as_long_as_expected_use_a_budget_up_and_no_more(
    workers: int, budget: dict[str, float], name: str
) -> None:
    world = World(budgeted(workers, **budget), 7).run()
    assert (world.state.stopped, world.state.stop_reason) == ("exhausted", name)
    assert BudgetExhausted(budget=name) in world.bodies
    left = (allowed(world.state)[name] or 0) - used(world.state)[name]
    # The first calls had no estimate; the last attempt is one that would not have fitted whole.
    assert 0 <= left < 2 * (USD if name == "usd" else TOKENS)


def test_device_time_is_a_budget_for_calls_too() -> None:
    world = World(budgeted(2, device_s=12.0), 3, lease_s=2.0).run()
    assert (world.state.stopped, world.state.stop_reason) == ("exhausted", "device")
    assert 9_000 < world.state.spend.device_ms < 12_000 + 2 * 3_000
    judged = sum(isinstance(body, EvaluationFinished) for body in world.bodies)
    assert judged == world.state.spend.evaluations


@pytest.mark.parametrize("workers", [1, 4])
def test_when_wall_time_is_up_nothing_is_begun_and_a_resume_goes_on_with_it(workers: int) -> None:
    world = World(budgeted(workers, wall_s=60.0), 2)
    while not (world.state.attempts and world.state.attempts_ended == 3):
        world.step()
    world.feed(DeadlineReached(budget="wall"))
    begun = len(world.bodies)
    world.run()
    assert (world.state.stopped, world.state.stop_reason) == ("exhausted", "wall")
    assert not [b for b in world.bodies[begun:] if isinstance(b, AgentCalled | EvaluationRequested)]
    assert world.state.attempts, "what was begun is kept"
    kept = set(world.state.attempts)
    world.take_over(RunResumed(versions={}, extra_wall_ms=5_000, worked_ms=61_000))
    assert (world.state.granted.wall_ms, world.state.worked_ms) == (65_000, 61_000)
    world.run()
    assert world.state.stopped == "finished"
    assert kept <= set(world.state.tree.nodes) - {0}
    assert replay(as_events(world.bodies), team_of).difference is None


def test_more_of_a_budget_goes_on_where_it_ended() -> None:
    world = World(budgeted(3, tokens=10 * TOKENS), 5).run()
    assert world.state.stopped == "exhausted"
    world.take_over(RunResumed(versions={}, extra_tokens=10 * TOKENS))
    world.run()
    assert (world.state.stopped, world.state.stop_reason) == ("exhausted", "tokens")
    assert 18 * TOKENS <= world.state.spend.total.tokens <= 20 * TOKENS


def test_before_the_first_call_the_runs_own_forecast_is_the_estimate() -> None:
    world = World(budgeted(usd=0.01), 1)
    assert isinstance(world.bodies[0], type(world.state.started))
    expected = {"plan": Usage(output_tokens=400), "code": Usage(output_tokens=400)}
    started = msgspec.structs.replace(world.state.started, estimates=expected)
    poor = World(budgeted(usd=0.01), 1)
    poor.state, poor.bodies, poor.pending = State(team_of), [], []
    poor.feed(started)
    poor.run()
    assert not [body for body in poor.bodies if isinstance(body, AgentCalled)]
    assert (poor.state.stopped, poor.state.stop_reason) == ("exhausted", "usd")
    assert [b for b in world.run().bodies if isinstance(b, AgentCalled)], "without one, it tries"


@pytest.mark.parametrize(("usd", "affordable"), [(0.02, False), (0.2, True)])
def test_of_several_planners_the_dearest_is_expected(usd: float, affordable: bool) -> None:
    plan = PlannerConfig(models=["fake:unheard-of", "fake:m"])
    config = msgspec.structs.replace(budgeted(usd=usd), model="fake:no", roles=Roles(plan=plan))
    estimates = {"plan": Usage(output_tokens=4_000)}  # six cents
    world = begun(config, estimates)
    world.feed(
        BaselineMeasured(runtime_ms=10, spread=0.1, repetitions=9, timings_s={}, isolation=[])
    )
    assert any(isinstance(body, AgentCalled) for body in world.bodies) == affordable
    assert replay(as_events(world.bodies), team_of).difference is None


def test_a_try_that_a_killed_process_left_counts_as_its_estimate() -> None:
    estimates = {role: Usage(output_tokens=400) for role in ("plan", "code", "debug")}
    world = begun(budgeted(usd=0.02), estimates)
    world.feed(
        BaselineMeasured(runtime_ms=10, spread=0.1, repetitions=9, timings_s={}, isolation=[])
    )
    while not world.state.over:
        world.take_over(RunResumed(versions={}))
    # Of six thousandths of a dollar each: a fourth would not have fitted, had they been paid for.
    tries = [body.try_ for body in world.bodies if isinstance(body, AgentCalled)]
    assert (tries, world.state.stop_reason) == ([1, 2, 3], "usd")
    assert world.state.spend.total.usd_micros == 0
    assert replay(as_events(world.bodies), team_of).difference is None


def begun(config: Config, estimates: dict[str, Usage]) -> World:
    world = World(config, 1)
    first = msgspec.structs.replace(world.state.started, estimates=estimates)
    world.state, world.bodies, world.pending = State(team_of), [], []
    world.feed(first)
    return world
