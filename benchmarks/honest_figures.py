"""Arithmetic of ``honest_scores``: device time between markers, quantiles, tables. No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = [
    "BEYOND", "NEAR_LONG", "NEAR_SHORT", "SHORT_US", "Activity", "MarkersMissing", "Row", "call_ns",
    "claimed_speedup", "deviation", "quantile", "rows_of", "summary", "table", "true_speedup",
]  # fmt: skip

MARKER = "spin_kernel"
SHORT_US = 20.0  # of the candidate's true time; below, less is asked of a score
NEAR_LONG, NEAR_SHORT = 0.05, 0.15  # how far a score may be off, from SHORT_US on and below
BEYOND = 1.3  # no score may be off by more, as a factor
_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_CLAIM = re.compile(r"([\d.]+)x by the candidate's own clock")
_HEADER = (
    "case", "kind", "eager µs", "cand. µs", "true ×", "claimed ×", "scored ×", "scored/true", "note"
)  # fmt: skip


class MarkersMissing(Exception):
    """The profile does not hold two markers a call, or a call without device activity."""


class Activity(NamedTuple):
    """A kernel, copy or fill of the device; ``kind`` is CUPTI's word, empty if unknown."""

    name: str
    start_ns: int
    duration_ns: int
    kind: str = ""

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns

    @property
    def is_marker(self) -> bool:
        return MARKER in self.name

    @property
    def is_work(self) -> bool:
        return not self.kind or self.kind in _WORK


class Row(NamedTuple):
    """A case's truth and score; None where there is none. ``outcome`` is the verdict's tag."""

    name: str
    kind: str
    eager_us: float | None
    candidate_us: float | None
    true: float | None
    claimed: float | None
    scored: float | None
    outcome: str
    note: str

    @property
    def ratio(self) -> float | None:
        return self.scored / self.true if self.scored and self.true else None

    @property
    def is_short(self) -> bool:
        return self.candidate_us is not None and self.candidate_us < SHORT_US


def call_ns(activities: Sequence[Activity], calls: int) -> list[int]:
    """Device time of each call: first start to last end of what starts between its markers.

    Raises ``MarkersMissing`` where there are not two markers a call, or nothing between them.
    """
    ordered = sorted((a for a in activities if a.is_work), key=lambda a: a.start_ns)
    marks = [a for a in ordered if a.is_marker]
    if len(marks) != 2 * calls:
        raise MarkersMissing(
            f"expected {2 * calls} markers of {calls} calls; the profile has {len(marks)} among"
            f" {len(ordered)} activities: enlarge CUPTI's buffers or take fewer rounds"
        )
    work = [a for a in ordered if not a.is_marker]
    times = []
    for number, (before, after) in enumerate(zip(marks[::2], marks[1::2], strict=True)):
        inside = [a for a in work if before.end_ns <= a.start_ns < after.start_ns]
        if not inside:
            raise MarkersMissing(f"call {number} shows no device activity between its markers")
        times.append(max(a.end_ns for a in inside) - inside[0].start_ns)
    return times


def quantile(values: Sequence[float], share: float) -> float:
    """By linear interpolation between the two nearest values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def true_speedup(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Median over rounds of baseline / candidate."""
    return quantile([b / c for b, c in zip(baseline, candidate, strict=True)], 0.5)


def claimed_speedup(notes: Sequence[str]) -> float | None:
    """What the candidate's own process claims, where a note disputes it (the last such note)."""
    found = [match[1] for note in notes for match in _CLAIM.finditer(note)]
    return float(found[-1]) if found else None


def deviation(ratio: float) -> float:
    """As a factor of one or more, whichever way the score is off."""
    return max(ratio, 1 / ratio)


def rows_of(
    kinds: Mapping[str, str], truths: Mapping[str, Any], scores: Mapping[str, Any]
) -> list[Row]:
    """One a case, sorted by kind, then by name."""
    return sorted(
        (_row(name, kind, truths.get(name), scores.get(name)) for name, kind in kinds.items()),
        key=lambda row: (row.kind, row.name),
    )


def _row(name: str, kind: str, truth: Any, score: Any) -> Row:
    truth, score = truth or {}, score or {}
    scored = score.get("speedup")
    parts = [truth.get("failed") and f"truth: {truth['failed']}", *truth.get("notes", [])]
    if score and scored is None:
        parts.append(f"{score['outcome']}: {score['reason']}")
    parts += score.get("labels", [])
    return Row(
        name=name,
        kind=kind,
        eager_us=truth.get("eager_us"),
        candidate_us=truth.get("candidate_us"),
        true=truth.get("speedup"),
        claimed=score.get("claimed") or scored,
        scored=scored,
        outcome=score.get("outcome", "not scored"),
        note="; ".join(part for part in parts if part),
    )


def table(rows: Sequence[Row]) -> str:
    lines = [list(_HEADER), *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADER) - 1)]
    return "\n".join(_aligned(line, widths) for line in lines)


def _cells(row: Row) -> list[str]:
    values = (
        (row.eager_us, ".1f"), (row.candidate_us, ".1f"), (row.true, ".3f"),
        (row.claimed, ".3f"), (row.scored, ".3f"), (row.ratio, ".3f"),
    )  # fmt: skip
    told = ["-" if value is None else format(value, digits) for value, digits in values]
    return [row.name, row.kind, *told, row.note[:200]]


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    names = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
    numbers = [cell.rjust(width) for cell, width in zip(line[2:-1], widths[2:], strict=True)]
    return "  ".join([*names, *numbers, line[-1]]).rstrip()


def summary(rows: Sequence[Row]) -> list[str]:
    """Quantiles of scored / true, and what is not correct, with reasons."""
    compared = [row for row in rows if row.ratio is not None]
    lines = [
        *_share(f"candidates of {SHORT_US:g} µs and more", NEAR_LONG, compared, short=False),
        *_share(f"candidates below {SHORT_US:g} µs", NEAR_SHORT, compared, short=True),
    ]
    if compared:
        worst = max(compared, key=lambda row: deviation(row.ratio or 1.0))
        beyond = sum(deviation(row.ratio or 1.0) > BEYOND for row in compared)
        lines.append(f"worst: {worst.ratio:.3f} ({worst.name}); beyond {BEYOND:g}: {beyond}")
    wrong = [row for row in rows if row.outcome not in ("correct", "not scored")]
    missing = sum(row.outcome == "not scored" for row in rows)
    untrue = sum(row.true is None for row in rows)
    lines.append(f"not correct: {len(wrong)}, not scored: {missing}, without truth: {untrue}")
    return lines + [f"  {row.name}: {row.note}" for row in wrong]


def _share(what: str, near: float, rows: Sequence[Row], *, short: bool) -> list[str]:
    ratios = [row.ratio for row in rows if row.ratio is not None and row.is_short is short]
    if not ratios:
        return [f"{what}: none"]
    inside = sum(abs(ratio - 1) <= near for ratio in ratios)
    shares = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    told = ", ".join(f"{share:.0%} {quantile(ratios, share):.3f}" for share in shares)
    return [
        f"{what}: {inside} of {len(ratios)} ({inside / len(ratios):.0%}) within {near:.0%}",
        f"  quantiles of scored/true: {told}",
    ]
