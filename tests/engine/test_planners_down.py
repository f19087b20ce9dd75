"""Several planners, some of them down: the log of any such run against the rule, looked up."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import Config
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    Body,
    EvaluationFinished,
    Pick,
    RunPaused,
    RunResumed,
)
from replay.verify import replay
from tests.engine.test_planners import planned
from tests.engine.world import World, as_events, config_of, team_of
from tests.thorough import examples

MODELS = ["fake:a", "fake:b", "fake:c"]
"""None of them the coder's."""
_OUTAGES = ("overloaded", "server_error", "connection", "timed_out")
_LONG_MS = 900_000


class Providers(World):
    """``down`` says of each planner in which attempts (by how many have ended) it is down, and
    how: with which error, which may be followed by a ``retry-after``."""

    down: dict[str, tuple[range, str, int | None]]

    def _answer(self, called: AgentCalled) -> None:
        when, error, after_ms = self.down.get(called.model, (range(0), "", None))
        if called.role != "plan" or self.state.attempts_ended not in when:
            super()._answer(called)
            return
        self.feed(
            AgentFailed(
                attempt=called.attempt, role="plan", call=called.call, try_=called.try_,
                error=error, message="down for all", retryable=True, retry_after_ms=after_ms,
            )
        )  # fmt: skip


def world_of(
    config: Config, down: dict[str, tuple[range, str, int | None]], chance: int, steps: int
) -> Providers:
    world = Providers(config, chance)
    world.down = down
    for _ in range(steps):
        if not world.step():
            break
    return world


outages = st.tuples(
    st.builds(range, st.just(0), st.integers(0, 40)) | st.builds(range, st.integers(0, 20)),
    st.sampled_from([*_OUTAGES, "rate_limited"]),
    st.sampled_from([None, None, 50, 2 * _LONG_MS]),
)
searches = st.builds(
    lambda **search: planned(config_of(attempts=25, **search), MODELS, "token"),
    policy=st.sampled_from(["stark", "best_of_k"]),
    workers=st.integers(1, 4),
    seed=st.integers(0, 9),
    call_tries=st.integers(1, 6),
    outage_failures=st.integers(1, 8),
)


class Looked:
    """What the log said of one model before the event ``upto``."""

    def __init__(self, config: Config, bodies: list[Body], upto: int, model: str) -> None:
        self.search = config.search
        self.model = model
        self.before = bodies[:upto]
        self.calls = {b.call: b for b in self.before if isinstance(b, AgentCalled)}

    def _of_it(self, body: Any) -> bool:
        return self.calls[body.call].model == self.model

    def left_out(self) -> bool:
        since: list[Body] = []
        for body in self.before:
            replied = isinstance(body, AgentReplied) and self._of_it(body)
            since = [] if replied or isinstance(body, RunResumed) else [*since, body]
        failed = [b for b in since if isinstance(b, AgentFailed) and self._of_it(b)]
        if any((b.retry_after_ms or 0) > _LONG_MS for b in failed):
            return True
        tries = [b for b in failed if b.error in _OUTAGES]
        given_up = max(map(self._failures, failed), default=0)
        if not given_up and len(tries) < self.search.outage_failures:
            return False
        asked = [
            at
            for at, b in enumerate(since)
            if b in failed or (isinstance(b, AgentCalled) and self._of_it(b))
        ]
        over = EvaluationFinished | AttemptAbandoned
        return sum(isinstance(b, over) for b in since[asked[-1] :]) < max(given_up, len(tries))

    def _failures(self, last: AgentFailed) -> int:
        """Of a call that used up its tries by ``last``; else 0."""
        upto = next(at for at, b in enumerate(self.before) if b is last)
        resumed = [at for at, b in enumerate(self.before[:upto]) if isinstance(b, RunResumed)]
        tries = self.before[resumed[-1] if resumed else 0 : upto + 1]
        count = sum(isinstance(b, AgentFailed) and b.call == last.call for b in tries)
        return count if count >= self.search.call_tries else 0


@given(searches, st.fixed_dictionaries({}, optional=dict.fromkeys(MODELS, outages)),
       st.integers(0, 99))  # fmt: skip
@settings(max_examples=examples(60), deadline=None)
def test_each_pick_leaves_out_those_that_are_down(
    config: Config, down: dict[str, tuple[range, str, int | None]], chance: int
) -> None:
    world = world_of(config, down, chance, 400)
    bodies = world.bodies
    for at, body in enumerate(bodies):
        if isinstance(body, AgentCalled) and isinstance(body.pick, Pick):
            out = [m for m in MODELS if Looked(config, bodies, at, m).left_out()]
            assert body.pick.down == out
            assert body.model not in out
        if isinstance(body, RunPaused):
            assert body.reason.startswith("every planner is down: ")
            assert all(Looked(config, bodies, at, model).left_out() for model in MODELS)
    assert replay(as_events(bodies), team_of).difference is None


@given(searches, st.dictionaries(st.sampled_from(MODELS[1:]), outages), st.integers(0, 99))
@settings(max_examples=examples(40), deadline=None)
def test_one_that_is_up_keeps_the_run_going(
    config: Config, down: dict[str, tuple[range, str, int | None]], chance: int
) -> None:
    world = world_of(config, down, chance, 5000)
    assert (world.state.stopped, world.state.attempts_ended) == ("finished", 25)
    assert not any(isinstance(b, RunPaused | AttemptAbandoned) for b in world.bodies)
    # Each is tried until it counts as down, with what is under way then, and after that by one
    # call at a time, each time after more attempts.
    search = config.search
    for model in down:
        calls = {b.call for b in world.bodies if isinstance(b, AgentCalled) and b.model == model}
        failed = [b for b in world.bodies if isinstance(b, AgentFailed) and b.call in calls]
        tries = min(search.call_tries, search.outage_failures)
        assert len(failed) <= (tries + 1) * search.workers + 25


def test_one_that_is_up_again_is_asked_again() -> None:
    config = planned(config_of(attempts=60, repairs=False), MODELS[:2], "token")
    world = world_of(config, {MODELS[0]: (range(10), "connection", None)}, 1, 5000)
    assert world.state.stopped == "finished"
    failed = [b.attempt for b in world.bodies if isinstance(b, AgentFailed)]
    # Its six tries, once more when six attempts had ended, and again after seven: it answers.
    assert failed == [1] * 6 + [7]
    asked = [b for b in world.bodies if isinstance(b, AgentCalled) and b.role == "plan"]
    attempts = [b.attempt for b in asked if b.model == MODELS[0]]
    assert attempts[7] == 14
    assert world.state.planners.arms[MODELS[0]].pulls > 10


def test_a_run_that_paused_for_want_of_planners_goes_on() -> None:
    config = planned(config_of(attempts=5, workers=2), MODELS[:2], "token")
    every = dict.fromkeys(MODELS[:2], (range(99), "overloaded", None))
    world = Providers(config, 1)
    world.down = every
    while not world.state.paused:
        world.step()
    assert world.state.paused == (
        "every planner is down: fake:a (down for all), fake:b (down for all)"
    )
    world.down = {}
    world.run()
    assert (world.state.stopped, world.state.attempts_ended) == ("finished", 5)
    assert replay(as_events(world.bodies), team_of).difference is None
