"""Several planners: against a naive bandit, in any interleaving, forked and resumed."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.exits import Failure
from engine.cli.run.confirm import confirm
from engine.cli.settings.layers import SettingsError, resolve
from engine.config import Config, PlannerConfig, Roles
from engine.core.draws import draw
from engine.loop.forecast import Forecast
from events.bodies import (
    AgentCalled,
    AgentReplied,
    AttemptAbandoned,
    Body,
    EvaluationFinished,
    NodeSelected,
    Pick,
    RunStarted,
)
from events.outcomes import CompileFailed, Correct, Outcome
from projections.run.spend import cost_usd_micros
from projections.search.planners import Planners
from projections.search.reward import UNIT
from replay.verify import replay
from tests.engine.world import World, as_events, config_of, team_of
from tests.thorough import examples

MODELS = ["fake:m", "fake:cheap", "fake:other"]


def planned(config: Config, models: list[str], per: str = "token") -> Config:
    plan = PlannerConfig(temperature=0.8, models=models, reward_per=per)  # type: ignore[arg-type]
    return msgspec.structs.replace(config, roles=Roles(plan=plan))


def world_of(
    search: dict[str, Any], models: list[str], per: str, chance: int, trouble: float
) -> World:
    # None is ever down: tests/engine/test_planners_down.py is about those.
    tireless = config_of(attempts=25, call_tries=99, outage_failures=99, **search)
    config = planned(tireless, models, per)
    return World(config, chance, trouble=trouble).run(1000)


worlds = st.builds(
    world_of,
    st.fixed_dictionaries(
        {
            "policy": st.sampled_from(["stark", "best_of_k", "random"]),
            "repairs": st.booleans(),
            "workers": st.integers(1, 4),
            "seed": st.integers(0, 99),
        }
    ),
    st.sampled_from([MODELS, MODELS[:2], MODELS[1:]]),
    st.sampled_from(["token", "dollar"]),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.2]),
)


class Naive:
    """What came before one call, looked up in the log for each question."""

    def __init__(self, bodies: list[Body], upto: int) -> None:
        self.bodies = bodies[:upto]
        first = bodies[0]
        assert isinstance(first, RunStarted)
        self.first = first

    def attempts(self, model: str) -> list[int]:
        asked = [b for b in self.bodies if isinstance(b, AgentCalled) and b.role == "plan"]
        return sorted({b.attempt for b in asked if b.model == model})

    def outcome(self, attempt: int) -> Body | None:
        over = EvaluationFinished | AttemptAbandoned
        ends = (b for b in self.bodies if isinstance(b, over) and b.attempt == attempt)
        return next(ends, None)

    def runtime(self, node: int) -> float | None:
        end = self.outcome(node) if node else None
        if isinstance(end, EvaluationFinished) and isinstance(end.outcome, Correct):
            return end.outcome.runtime_ms
        return None if node else 10.0

    def reward(self, attempt: int) -> float:
        runtime = self.runtime(attempt)
        (node,) = [
            b.node for b in self.bodies if isinstance(b, NodeSelected) and b.attempt == attempt
        ]
        base = self.runtime(node) or 10.0
        return 0.0 if runtime is None else base / (base + runtime)

    def costs(self, attempt: int, per: str) -> int | None:
        """Null where the price of a call is not known."""
        total = 0
        for body in self.bodies:
            if not isinstance(body, AgentReplied) or body.attempt != attempt:
                continue
            usage = body.usage
            assert usage is not None
            (model,) = {
                b.model for b in self.bodies if isinstance(b, AgentCalled) and b.call == body.call
            }
            if per == "token":
                total += usage.input_tokens + usage.output_tokens
            elif model in self.first.prices:
                total += cost_usd_micros(usage, self.first.prices[model])
            else:
                return None
        return total or None

    def bounds(self, models: list[str], per: str) -> list[float]:
        tried = [self.attempts(model) for model in models]
        ended = [[a for a in attempts if self.outcome(a)] for attempts in tried]
        known = [[c for a in each if (c := self.costs(a, per))] for each in ended]
        everything = [cost for costs in known for cost in costs]
        usual = sum(everything) / len(everything) if everything else 1.0
        together = sum(map(len, tried))
        return [
            (sum(map(self.reward, over)) / len(all_)
             + math.sqrt(2 * math.log(together) / len(all_)))
            / (sum(costs) / len(costs) if costs else usual)
            for all_, over, costs in zip(tried, ended, known, strict=True)
        ]  # fmt: skip


@given(worlds)
@settings(max_examples=examples(40), deadline=None)
def test_each_pick_is_the_naive_bandits(world: World) -> None:
    config = world.state.config
    models, per = config.roles.plan.models, config.roles.plan.reward_per
    chosen: dict[int, str] = {}
    for at, body in enumerate(world.bodies):
        if not isinstance(body, AgentCalled):
            continue
        if body.role != "plan":
            assert (body.model, body.pick) == ("fake:m", None)
            continue
        if body.attempt in chosen:  # asked again, or tried again
            assert (body.model, body.pick) == (chosen[body.attempt], None)
            continue
        chosen[body.attempt] = body.model
        assert isinstance(body.pick, Pick)
        naive = Naive(world.bodies, at)
        fresh = [model for model in models if not naive.attempts(model)]
        if fresh:
            assert (body.model, body.pick) == (fresh[0], Pick(rule="untried"))
            continue
        bounds = naive.bounds(models, per)
        tied = [
            model
            for model, bound in zip(models, bounds, strict=True)
            if bound == pytest.approx(max(bounds), rel=1e-9)
        ]
        assert body.pick.rule == "bound"
        assert body.model in tied
        if body.pick.tie is not None:
            assert body.pick.tie == draw(world.state.draw_key, "planner", body.attempt, len(tied))
    assert replay(as_events(world.bodies), team_of).difference is None


@given(worlds, st.integers(5, 120), st.sampled_from([MODELS, MODELS[:1], ["fake:new", "fake:m"]]))
@settings(max_examples=examples(25), deadline=None)
def test_a_fork_goes_on_with_what_was_learned(world: World, at: int, models: list[str]) -> None:
    config = planned(world.state.config, models)
    fork = world.fork(min(at, len(world.bodies)), config).run(1000)
    assert replay(as_events(fork.bodies), team_of).difference is None
    arms = fork.state.planners.arms
    own = fork.bodies[min(at, len(world.bodies)) :]
    asked = [b for b in own if isinstance(b, AgentCalled) and b.role == "plan"]
    assert {b.model for b in asked} <= {*models}
    naive = Naive(fork.bodies, len(fork.bodies))
    for model, arm in arms.items():
        ended = [a for a in naive.attempts(model) if naive.outcome(a)]
        assert arm.pulls <= len(ended)
        assert 0 <= arm.reward <= arm.pulls * UNIT
    flying = [b for b in fork.state.attempts.values() if b.call and b.call.body.role == "plan"]
    assert sum(arm.in_flight for arm in arms.values()) >= len(flying)


class Better(World):
    """One planner's plans come out right nine times in ten, the other's one time in ten."""

    good = "fake:m"

    def _outcome(self) -> Outcome:
        asked = [b for b in self.bodies if isinstance(b, AgentCalled) and b.role == "plan"]
        chance = 0.9 if asked[-1].model == self.good else 0.1
        if self.random.random() > chance:
            return CompileFailed(reason="no")
        return Correct(
            runtime_ms=5.0, speedup=2.0, ratio=0.5, ratio_low=0.4, ratio_high=0.6, pairs=9,
            candidate_ms=5.0, baseline_ms=10.0,
        )  # fmt: skip


def test_the_better_of_two_equally_dear_planners_is_asked_more() -> None:
    config = config_of(attempts=200, policy="best_of_k", repairs=False, deduplicate=False)
    for good, bad in (MODELS[:2], MODELS[1::-1]):
        world = Better(planned(config, MODELS[:2]), 1)
        world.good = good
        arms = world.run().state.planners.arms
        assert arms[good].pulls > 2 * arms[bad].pulls > 2


def test_without_a_list_nothing_is_picked() -> None:
    world = World(config_of(attempts=5), 1).run()
    called = [b for b in world.bodies if isinstance(b, AgentCalled)]
    assert {b.pick for b in called} == {None}
    assert list(world.state.planners.arms) == ["fake:m"]
    assert Planners().arms == {}


def resolved(*assignments: str) -> Config:
    return resolve(preset=None, file=None, environment={}, assignments=list(assignments), flags={})


NOTHING = Forecast(attempts=0, roles=[])


def test_what_can_not_be_chosen_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"roles.plan.models must be distinct"):
        resolved("roles.plan.models=a:b,a:b")
    with pytest.raises(SettingsError, match=r"left out where the team has no planner"):
        resolved("roles.plan.models=a:b,a:c", "search.method=reflexion")
    with pytest.raises(SettingsError, match=r"roles.plan.model must be left out"):
        resolved("roles.plan.models=a:b,a:c", "roles.plan.model=a:b")
    two = "roles.plan.models=anthropic:claude-sonnet-4-5,openai:qwen"
    with pytest.raises(Failure, match=r"the price of openai:qwen is not known: choose by tokens"):
        confirm(resolved(two), canned=False, expected=NOTHING, yes=True)
    confirm(resolved(two, "roles.plan.reward_per=token"), canned=False, expected=NOTHING, yes=True)
    planners = "roles.plan.models=anthropic:claude-sonnet-4-5,anthropic:claude-haiku-4-5"
    mixed = resolved(planners, "roles.code.model=openai:qwen")
    with pytest.raises(Failure, match=r"the price of openai:qwen is not known"):
        confirm(mixed, canned=False, expected=NOTHING, yes=True)
