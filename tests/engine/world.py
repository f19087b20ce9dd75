"""A made-up world for the pure core: it answers calls and evaluates in any order.

Only the outside is made up. Selection, windows, retries and endings are the real core's.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from engine.config import Budget, Config, Prompts, Sandbox, Search
from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import State
from engine.loop.methods import team_of
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    BaselineMeasured,
    BaselineRequested,
    Body,
    EvaluationFaulted,
    EvaluationFinished,
    EvaluationRequested,
    GivenKernel,
    Price,
    ReplyParsed,
    ReplyRejected,
    RunForked,
    RunResumed,
    RunStarted,
    StopRequested,
    Usage,
)
from events.envelope import Event
from events.outcomes import CompileFailed, Correct, Crashed, Outcome, WrongResult

__all__ = ["World", "as_events", "config_of", "started", "team_of"]


def started(config: Config, given: GivenKernel | None = None, task: str = "0" * 64) -> RunStarted:
    price = Price(
        input_usd_micros_per_mtok=3_000_000,
        output_usd_micros_per_mtok=15_000_000,
        cache_read_usd_micros_per_mtok=300_000,
        cache_write_usd_micros_per_mtok=3_750_000,
    )
    return RunStarted(
        title="world", config=msgspec.to_builtins(config), task_name="t.py", task_sha256=task,
        templates={}, seed=config.search.seed, prices={"fake:m": price}, prices_dated="2026-01-01",
        versions={}, device={}, canned=False, given=given,
    )  # fmt: skip


def config_of(**search: Any) -> Config:
    attempts = search.pop("attempts", 30)
    usd = search.pop("usd", None)
    sandbox = Sandbox(baselines=search.pop("baselines", ["eager"]))
    return Config(
        model="fake:m",
        search=Search(**search),
        budget=Budget(attempts=attempts, usd=usd),
        prompts=Prompts(system="rotate", language="cpp"),
        sandbox=sandbox,
    )


class World:
    """Drives one run; ``bodies`` is its log."""

    def __init__(
        self, config: Config, chance: int, *, trouble: float = 0.0, failing: float = 0.5,
        dear: int = 1, lease_s: float = 0.0, given: GivenKernel | None = None,
        task: str = "0" * 64,
    ) -> None:  # fmt: skip
        self.random = random.Random(chance)
        self.trouble = trouble
        self.failing = failing
        self.dear = dear
        """A call uses up to so many times the usual tokens."""
        self.lease_s = lease_s
        """An evaluation takes half to one and a half times as long."""
        self.state = State(team_of)
        self.bodies: list[Body] = []
        self.pending: list[Body] = []
        self.feed(started(config, given, task))

    def feed(self, body: Body) -> None:
        """Append one ``in`` event and all decisions that follow from it."""
        self._append(body)
        while (decision := decide(self.state)) is not None:
            self._append(decision)
            if isinstance(decision, AgentCalled | EvaluationRequested | BaselineRequested):
                self.pending.append(decision)

    def _append(self, body: Body) -> None:
        self.bodies.append(body)
        self.state = evolve(self.state, body)

    def run(self, steps: int = 100_000) -> World:
        for _ in range(steps):
            if not self.step():
                break
        return self

    def step(self) -> bool:
        """Let one thing happen; False when the run is over for good."""
        if self.state.paused or self.state.stopped == "interrupted":
            self.resume()
            return True
        if self.state.stopped:
            return False
        if self.random.random() < self.trouble * 0.05:
            self.pending.clear()  # killed, or asked to stop
            if self.random.random() < 0.5:
                self.feed(StopRequested(source="SIGINT"))
            else:
                self.resume()
            return True
        body = self.pending.pop(self.random.randrange(len(self.pending)))
        match body:
            case BaselineRequested():
                self.feed(
                    BaselineMeasured(
                        runtime_ms=10, spread=0.1, repetitions=9, timings_s={}, isolation=[]
                    )
                )
            case AgentCalled():
                self._answer(body)
            case EvaluationRequested():
                self._evaluate(body)
        return True

    def fork(self, at: int, config: Config) -> World:
        """Another run that goes on from the first ``at`` events, configured otherwise."""
        other = World(config, self.random.randrange(2**20), trouble=self.trouble)
        other.state, other.bodies, other.pending = State(team_of), [], []
        for body in self.bodies[:at]:
            other._append(body)
        other.take_over(
            RunForked(
                parent="world", at=at, config=msgspec.to_builtins(config), changed={},
                replies="live", evaluations="anew", prices={}, versions={}, canned=False,
            )
        )  # fmt: skip
        return other

    def resume(self) -> None:
        self.take_over(RunResumed(versions={}))

    def take_over(self, first: Body) -> None:
        """As another process does: what is outstanding is done again."""
        evaluations = [
            attempt.evaluation
            for attempt in self.state.attempts.values()
            if attempt.evaluation is not None and not attempt.evaluation_faulted
        ]
        self.pending = list(evaluations)
        if self.state.baseline == "requested":
            self.pending.append(BaselineRequested())
        calls = [attempt.call for attempt in self.state.attempts.values()]
        self.feed(first)
        for call in calls:
            if call is not None and call.status == "replied":
                self._read(call.body)

    def _answer(self, called: AgentCalled) -> None:
        at: dict[str, Any] = {
            "attempt": called.attempt,
            "role": called.role,
            "call": called.call,
        }
        if self.random.random() < self.trouble:
            self.feed(
                AgentFailed(
                    **at, try_=called.try_, error="overloaded", message="busy",
                    retryable=self.random.random() < 0.9, retry_after_ms=None,
                )
            )  # fmt: skip
            return
        self.feed(
            AgentReplied(
                **at, try_=called.try_, usage=self._usage(),
                latency_ms=5, stop_reason="end_turn", served_by="m", sent={},
                reply_sha256="1" * 64,
            )
        )  # fmt: skip
        self._read(called)

    def _usage(self) -> Usage:
        times = self.random.randint(1, self.dear) if self.dear > 1 else 1
        return Usage(input_tokens=1000 * times, output_tokens=100 * times)

    def _timings_s(self) -> dict[str, float]:
        return {"lease": self.lease_s * (0.5 + self.random.random())} if self.lease_s else {}

    def _read(self, called: AgentCalled) -> None:
        at: dict[str, Any] = {"attempt": called.attempt, "role": called.role, "call": called.call}
        if self.random.random() < self.trouble:
            self.feed(ReplyRejected(**at, reason="no code"))
            return
        name = f"{self.random.randrange(2**40):064x}"
        if called.role == "plan":
            self.feed(ReplyParsed(**at, via="tool", advice_sha256=name, annotated_sha256=name))
        else:
            key = f"key{self.random.randrange(40)}"
            self.feed(ReplyParsed(**at, via="tool", source_sha256=name, source_key=key))

    def _evaluate(self, requested: EvaluationRequested) -> None:
        if requested.same_as is not None:
            verdict = self.state.verdicts[requested.same_as].taken(same_as=requested.same_as)
            self.feed(msgspec.structs.replace(verdict, attempt=requested.attempt))
            return
        if self.random.random() < self.trouble / 2:
            self.feed(EvaluationFaulted(attempt=requested.attempt, message="device lost"))
            return
        self.feed(
            EvaluationFinished(
                attempt=requested.attempt, outcome=self._outcome(), protocol="strict",
                timings_s=self._timings_s(), queue_s=0, device="cpu", isolation=[],
            )
        )  # fmt: skip

    def _outcome(self) -> Outcome:
        if self.random.random() < self.failing:
            return self.random.choice(
                [CompileFailed(reason="no"), WrongResult(reason="off"), Crashed(reason="segv")]
            )
        runtime = self.random.choice([2.0, 4.0, 5.0, 8.0, 12.0])
        eager = None
        if self.state.config.search.score == "eager":
            eager = self.random.choice([None, 0.5, 1.0, 2.0, 2.5])
        return Correct(
            runtime_ms=runtime, speedup=10 / runtime, ratio=runtime / 10, ratio_low=0.1,
            ratio_high=2.0, pairs=20, candidate_ms=runtime, baseline_ms=10.0,
            eager_speedup=eager,
        )  # fmt: skip


def as_events(bodies: list[Body]) -> list[Event]:
    return [
        Event(
            seq=seq, run_id=1, run_seq=seq, epoch=1, kind=body.KIND, ts_us=seq, body=body,
            hash=b"\0" * 32,
        )
        for seq, body in enumerate(bodies, 1)
    ]  # fmt: skip
