"""Runs side by side: how fast each came to its best, by attempts, by dollars and by seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from events.bodies import AttemptAbandoned, EvaluationFinished, RunStarted
from events.envelope import Event
from projections.overview import Overview, Summary
from replay.settings import COMPARABLE, differing

__all__ = ["AXES", "Compared", "Comparison", "Curve", "Point", "best_at", "compare"]

Axis = Literal["attempts", "cost_usd", "wall_s"]
AXES: tuple[Axis, ...] = ("attempts", "cost_usd", "wall_s")


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The best kernel, from here to the next point: after so many attempts, dollars and
    seconds of work (time in which no process worked on the run is left out)."""

    attempts: int
    cost_usd: float
    wall_s: float
    node: int
    runtime_ms: float
    speedup: float


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    summary: Summary
    curve: list[Point]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``settings`` that differ, each with the runs' values in order. ``incomparable`` are
    those among them that make runtimes of another kind: the task, the device, the protocol."""

    runs: list[Compared]
    settings: dict[str, list[Any]]
    incomparable: dict[str, list[Any]]


class Curve:
    """A fold over one run's events that owns mutable state."""

    def __init__(self) -> None:
        self.overview = Overview()
        self.points: list[Point] = []

    @property
    def started(self) -> RunStarted | None:
        return self.overview.started

    def apply(self, event: Event) -> None:
        """Fold one event."""
        self.overview.apply(event)
        if not isinstance(event.body, EvaluationFinished | AttemptAbandoned):
            return
        best = self.overview.best
        if best is None or (self.points and best.runtime_ms >= self.points[-1].runtime_ms):
            return
        self.points.append(
            Point(
                attempts=self.overview.ended,
                cost_usd=self.overview.spend.total.usd_micros / 1_000_000,
                wall_s=self.overview.wall_us / 1_000_000,
                node=best.node,
                runtime_ms=best.runtime_ms,
                speedup=best.speedup,
            )
        )


def compare(runs: Sequence[tuple[Curve, Summary]]) -> Comparison:
    """All runs' curves, and what they were told differently."""
    settings = differing([curve.started for curve, _ in runs])
    return Comparison(
        runs=[Compared(summary=summary, curve=curve.points) for curve, summary in runs],
        settings=settings,
        incomparable={key: settings[key] for key in COMPARABLE if key in settings},
    )


def best_at(run: Compared, axis: Axis, at: float) -> Point | None:
    """The best that the run had after ``at``; None before the first, and after the run's end."""
    if at > getattr(run.summary, axis):
        return None
    reached = [point for point in run.curve if getattr(point, axis) <= at]
    return reached[-1] if reached else None
