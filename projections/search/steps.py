"""The best so far: each kernel that was faster than all before it, and what it took."""

from __future__ import annotations

import math

import msgspec

from events.bodies import EvaluationFinished, RunForked
from events.envelope import Event
from projections.run.overview import Overview
from projections.run.summary import Best

__all__ = ["Step", "Steps"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A new best kernel: after how many attempts, how much money, and how long at work
    (``wall_s``) and by the clock (``since_start_s``)."""

    node: int
    attempts: int
    usd_micros: int
    since_start_s: float
    wall_s: float
    runtime_ms: float
    speedup: float
    eager_speedup: float | None = None

    @property
    def cost_usd(self) -> float:
        return self.usd_micros / 1_000_000


class Steps:
    """A fold over one run's events that owns mutable state, the run's overview within it."""

    def __init__(self) -> None:
        self.overview = Overview()
        self.found: list[Step] = []
        self._score_ms = math.inf
        self._began_us: int | None = None

    def apply(self, event: Event) -> None:
        """Fold one event."""
        if self._began_us is None:
            self._began_us = event.ts_us
        self.overview.apply(event)
        if isinstance(event.body, RunForked):  # it may go by the other score
            before = self.overview.tree.best
            self._score_ms = math.inf if before is None else before.score_ms or math.inf
        best = self.overview.best if isinstance(event.body, EvaluationFinished) else None
        # An older attempt may end later and be as fast: it is the best then, but no step.
        score_ms = self.overview.tree[best.node].score_ms if best else None
        if best and score_ms is not None and score_ms < self._score_ms:
            self._score_ms = score_ms
            self.found.append(self._step(best, event.ts_us - self._began_us))

    def _step(self, best: Best, since_us: int) -> Step:
        return Step(
            node=best.node,
            attempts=self.overview.ended,
            usd_micros=self.overview.spend.total.usd_micros,
            since_start_s=since_us / 1_000_000,
            wall_s=self.overview.wall_us / 1_000_000,
            runtime_ms=best.runtime_ms,
            speedup=best.speedup,
            eager_speedup=best.eager_speedup,
        )
