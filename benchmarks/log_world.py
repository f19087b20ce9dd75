"""A stub search at the core: every call answered and every kernel judged at once.

The core decides and folds as it does live; only the outside is made up. A kernel is faster
or slower than its parent by a random factor, so that the tree grows deep and wide.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from engine.config import Budget, Config, Search
from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import State
from engine.loop.methods import team_of
from events.bodies import (
    AgentCalled,
    AgentReplied,
    BaselineMeasured,
    BaselineRequested,
    Body,
    EvaluationFinished,
    EvaluationRequested,
    PromptRendered,
    ReplyParsed,
    RunStarted,
    Usage,
)
from events.outcomes import CompileFailed, Correct, Outcome

__all__ = ["World"]

_FAILING = 0.3
_PARTS = ["system", "task", "example", "device", "selected", "window", "advice", "tail"]


class World:
    """``core_s`` is the time that the core took for ``decisions``: deciding and folding.

    ``log`` is given each event, notes included.
    """

    def __init__(self, search: Search, log: Callable[[Body], object], *, chance: int = 0) -> None:
        self._log = log
        self._random = random.Random(chance)
        self._pending: list[Body] = []
        self.state = State(team_of)
        self.core_s = 0.0
        self.decisions = 0
        config = Config(model="stub:m", search=search, budget=Budget(attempts=10**9))
        self._feed(
            RunStarted(
                title="world", config=msgspec.to_builtins(config), task_name="t.py",
                task_sha256="0" * 64, templates={}, seed=search.seed, prices={},
                prices_dated="2026-01-01", versions={}, device={}, canned=True,
            )
        )  # fmt: skip

    def grow(self, attempts: int) -> None:
        """Go on until so many more attempts have ended."""
        until = self.state.attempts_ended + attempts
        while self.state.attempts_ended < until:
            self._answer(self._pending.pop(0))

    def _feed(self, body: Body) -> None:
        self._log(body)
        began = time.perf_counter()
        self.state = evolve(self.state, body)
        while (decision := decide(self.state)) is not None:
            self.state = evolve(self.state, decision)
            self.decisions += 1
            self.core_s += time.perf_counter() - began
            self._log(decision)
            if isinstance(decision, AgentCalled | EvaluationRequested | BaselineRequested):
                self._pending.append(decision)
            began = time.perf_counter()
        self.core_s += time.perf_counter() - began

    def _answer(self, decision: Body) -> None:
        match decision:
            case BaselineRequested():
                self._feed(
                    BaselineMeasured(
                        runtime_ms=10.0, spread=0.01, repetitions=9, timings_s={}, isolation=[]
                    )
                )
            case AgentCalled():
                self._reply(decision)
            case EvaluationRequested():
                self._feed(
                    EvaluationFinished(
                        attempt=decision.attempt, outcome=self._outcome(decision.attempt),
                        protocol="strict", timings_s={"compile": 1.5, "check": 0.25, "bench": 0.5},
                        queue_s=0.0, device="cuda:0", isolation=["namespaces", "landlock"],
                    )
                )  # fmt: skip

    def _reply(self, called: AgentCalled) -> None:
        at: dict[str, Any] = {
            "attempt": called.attempt, "role": called.role, "call": called.call,
        }  # fmt: skip
        name = f"{self._random.getrandbits(256):064x}"
        self._log(PromptRendered(**at, try_=called.try_, request_sha256=name, parts=_PARTS))
        self._feed(
            AgentReplied(
                **at, try_=called.try_, usage=Usage(input_tokens=4000, output_tokens=900),
                latency_ms=9000, stop_reason="end_turn", served_by="stub", sent={"max_tokens": 16},
                reply_sha256=name,
            )
        )  # fmt: skip
        if called.role == "plan":
            self._feed(ReplyParsed(**at, via="tool", advice_sha256=name, annotated_sha256=name))
        else:
            self._feed(ReplyParsed(**at, via="tool", source_sha256=name, source_key=name))

    def _outcome(self, attempt: int) -> Outcome:
        if self._random.random() < _FAILING:
            return CompileFailed(reason="expected ';' before '}' token")
        tree = self.state.tree
        parent = tree[tree[attempt].parent or 0]
        runtime_ms = (parent.runtime_ms or 10.0) * self._random.uniform(0.98, 1.1)
        return Correct(
            runtime_ms=runtime_ms, speedup=10 / runtime_ms, ratio=runtime_ms / 10,
            ratio_low=0.1, ratio_high=1.0, pairs=20, candidate_ms=runtime_ms, baseline_ms=10.0,
        )  # fmt: skip
