"""Runs side by side: how fast each came to its best, by attempts, by dollars and by seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from projections.run.summary import Summary
from projections.search.steps import Step, Steps
from replay.settings import COMPARABLE, differing_settings

__all__ = ["AXES", "Compared", "Comparison", "best_at", "compare"]

Axis = Literal["attempts", "cost_usd", "wall_s"]
AXES: tuple[Axis, ...] = ("attempts", "cost_usd", "wall_s")


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    summary: Summary
    curve: list[Step]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``settings`` that differ, each with the runs' values in order. ``incomparable`` are
    those among them that make runtimes of another kind: the task, the device, the protocol."""

    runs: list[Compared]
    settings: dict[str, list[Any]]
    incomparable: dict[str, list[Any]]


def compare(runs: Sequence[tuple[Steps, Summary]]) -> Comparison:
    """All runs' curves, and the settings that differ."""
    settings = differing_settings([steps.overview.started for steps, _ in runs])
    return Comparison(
        runs=[Compared(summary=summary, curve=steps.found) for steps, summary in runs],
        settings=settings,
        incomparable={key: settings[key] for key in COMPARABLE if key in settings},
    )


def best_at(run: Compared, axis: Axis, at: float) -> Step | None:
    """The best that the run had after ``at``; None before the first, and after the run's end."""
    if at > getattr(run.summary, axis):
        return None
    reached = [step for step in run.curve if getattr(step, axis) <= at]
    return reached[-1] if reached else None
