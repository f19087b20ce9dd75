"""Rows of ``gpu_real``'s table: what each part's results say of what was asked. No torch.

A part may have several results, from as many shards; each function takes all of them. Those of
JSON files raise ``KeyError``, ``TypeError`` or ``ValueError`` for a file of another program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engines_together import MIN_RATIO, MOST_WAIT_S
from benchmarks.honest_figures import (
    BEYOND,
    NEAR_LONG,
    NEAR_SHORT,
    SHORT_US,
    Row,
    deviation,
    quantile,
    rows_of,
)
from benchmarks.junit import cases_of

__all__ = ["PARTS", "Line", "Part"]

MIN_CASES, MIN_KINDS = 40, 10  # of honest candidates
MIN_SHARE = 0.95  # of honest scores that are near the truth
CLOSE = 0.03  # of our times to KernelBench's own, relative
LONG_MS = 10.0  # a call; no lease is held to its bounds where calls take longer
LEASE_MEDIAN_S, LEASE_95_S = 1.2, 5.0
UNSEEN, SEEN, BUILT = 1.5, 1.2, 1.0  # times KernelBench's evaluator; BUILT: an inline extension
SECOND_S = 1.5  # for one candidate more in the same call
BUILDS = "inline CUDA"


class Line(NamedTuple):
    """``point`` is of what was asked; ``peer`` is KernelBench's evaluator."""

    point: str
    measure: str
    asked: str
    reached: str
    is_met: bool
    peer: str = "-"


class Part(NamedTuple):
    """``ending`` is that of its results' names; ``may_exit`` are statuses of a finished run."""

    title: str
    ending: str
    may_exit: tuple[int, ...]
    lines: Callable[[Sequence[Path]], list[Line]]


def _read(paths: Iterable[Path]) -> list[Any]:
    return [json.loads(path.read_text()) for path in paths]


# --- corpora, by pytest's report


def _cases(paths: Sequence[Path], point: str, test: str, measure: str, passing: str) -> Line:
    cases = cases_of(paths, test)
    reached = f"{len(cases.passed)} of {cases.tried} {passing}"
    reached += f"; not tried: {', '.join(cases.skipped)}" if cases.skipped else ""
    reached += f"; not: {', '.join(cases.failed)}" if cases.failed else ""
    is_met = bool(cases.passed) and not cases.failed and not cases.skipped
    return Line(point, measure, "all", reached, is_met)


def _attacks(paths: Sequence[Path]) -> list[Line]:
    return [_cases(paths, "corpora", "test_attack_cuda", "attacks", "withstood")]


def _corpus(paths: Sequence[Path]) -> list[Line]:
    return [_cases(paths, "corpora", "test_honest_cuda", "honest corpus", "accepted")]


def _places(paths: Sequence[Path]) -> list[Line]:
    return [
        _cases(paths, "1", "test_attack_cuda", "earlier inputs or outputs used again", "rejected"),
        _cases(paths, "1", "test_honest_cuda", "their honest twins", "accepted"),
    ]


# --- times beside KernelBench's


def _kernelbench(paths: Sequence[Path]) -> list[Line]:
    last = {
        f"{look['problem']} {look['candidate']}": look
        for found in _read(paths)
        for look in found["looks"]
    }
    return [_close(last, what) for what in ("eager", "candidate")]


def _close(looks: Mapping[str, dict[str, Any]], what: str) -> Line:
    """Of last looks: those that both sides judged, by the mean times of both."""
    ratios = {
        name: look["ours"][what] / look["theirs"][what]["mean_ms"]
        for name, look in looks.items()
        if look["ours"].get(what) and look["theirs"].get(what)
    }
    far = {name: ratio for name, ratio in ratios.items() if abs(ratio - 1) > CLOSE}
    reached = f"{len(ratios) - len(far)} of {len(ratios)}"
    reached += f", {len(looks) - len(ratios)} not compared" if len(looks) > len(ratios) else ""
    reached += "".join(f"; {name} {ratio:.3f}" for name, ratio in far.items())
    measure, asked = f"{what} times / KernelBench's", f"all within {CLOSE:.0%}"
    return Line("1", measure, asked, reached, bool(ratios) and not far, "1")


# --- honest scores, and leases


def _honest(paths: Sequence[Path]) -> list[Line]:
    kinds: dict[str, str] = {}
    truths: dict[str, Any] = {}
    scores: dict[str, Any] = {}
    for found in _read(paths):
        kinds |= found["kinds"]
        truths |= found["truths"]
        scores |= found["scores"]
    rows = rows_of(kinds, truths, scores)
    compared = [row for row in rows if row.ratio is not None]
    return [
        _scored(rows, compared),
        _near([row for row in compared if not row.is_short], f"≥ {SHORT_US:g} µs", NEAR_LONG),
        _near([row for row in compared if row.is_short], f"< {SHORT_US:g} µs", NEAR_SHORT),
        _worst(compared),
        *_leases(kinds, scores),
    ]


def _scored(rows: Sequence[Row], compared: Sequence[Row]) -> Line:
    missing = [f"{row.name} ({row.outcome})" for row in rows if row.ratio is None]
    kinds = len({row.kind for row in compared})
    reached = f"{len(compared)} of {len(rows)}, {kinds} kinds"
    reached += f"; not: {', '.join(missing)}" if missing else ""
    is_met = not missing and len(compared) >= MIN_CASES and kinds >= MIN_KINDS
    asked = f"all; ≥ {MIN_CASES} of ≥ {MIN_KINDS} kinds"
    return Line("2", "honest candidates scored", asked, reached, is_met)


def _near(rows: Sequence[Row], which: str, near: float) -> Line:
    inside = sum(abs((row.ratio or 0.0) - 1) <= near for row in rows)
    is_met = bool(rows) and inside >= MIN_SHARE * len(rows)
    measure, asked = f"{which}: scored / true within {near:.0%}", f"{MIN_SHARE:.0%}"
    share = f" ({inside / len(rows):.0%})" if rows else ""
    return Line("2", measure, asked, f"{inside} of {len(rows)}{share}", is_met)


def _worst(rows: Sequence[Row]) -> Line:
    far = [row for row in rows if deviation(row.ratio or 1.0) > BEYOND]
    reached = f"{len(far)}"
    if rows:
        worst = max(rows, key=lambda row: deviation(row.ratio or 1.0))
        reached += f"; worst {worst.ratio:.2f} ({worst.name})"
    return Line("2", f"scored / true beyond {BEYOND:g}", "none", reached, bool(rows) and not far)


def _leases(kinds: Mapping[str, str], scores: Mapping[str, Any]) -> list[Line]:
    """Of correct verdicts on calls that are not long, Triton's among them."""
    leases = {
        name: float(score["timings_s"]["lease"])
        for name, score in scores.items()
        if "speedup" in score and max(score["baseline_ms"], score["candidate_ms"]) <= LONG_MS
    }
    triton = sum(kinds[name].startswith("triton") for name in leases)
    lines = []
    for share, bound, name in ((0.5, LEASE_MEDIAN_S, "median"), (0.95, LEASE_95_S, "95 %")):
        reached, is_met = "no verdict", False
        if leases:
            lease_s = quantile(list(leases.values()), share)
            reached = f"{lease_s:.2f} s of {len(leases)} ({triton} Triton)"
            is_met = lease_s <= bound and triton > 0
        lines.append(Line("7", f"lease, {name}", f"≤ {bound:g} s", reached, is_met))
    return lines


# --- first verdicts


def _first(paths: Sequence[Path]) -> list[Line]:
    turns: dict[str, list[dict[str, float]]] = {}
    for found in _read(paths):
        for kind, made in found.items():
            turns.setdefault(kind, []).extend(made)
    return [line for kind, made in turns.items() for line in _first_of(kind, made)]


def _first_of(kind: str, turns: Sequence[dict[str, float]]) -> list[Line]:
    names = ("evaluator", "unseen", "seen", "a second")
    theirs, unseen, seen, second = (quantile([turn[name] for turn in turns], 0.5) for name in names)
    bounds = (BUILT, BUILT) if kind == BUILDS else (UNSEEN, SEEN)
    lines = []
    for name, ours, bound in zip(("never seen", "seen"), (unseen, seen), bounds, strict=True):
        ratio = ours / theirs
        measure, asked = f"first verdict, {kind}, task {name}", f"≤ {bound:g} times the peer's"
        reached = f"{ours:.2f} s ({ratio:.2f} times)"
        lines.append(Line("6", measure, asked, reached, ratio <= bound, f"{theirs:.2f} s"))
    measure = f"one candidate more, {kind}"
    asked, reached = f"≤ {SECOND_S:g} s", f"{second:.2f} s"
    return [*lines, Line("6", measure, asked, reached, second <= SECOND_S)]


# --- engines


def _engines(paths: Sequence[Path]) -> list[Line]:
    lines = []
    for found in _read(paths):
        rates, ratio, wait = found["per_hour"], found["ratio"], found["longest_wait_s"]
        engines, wrong = found["engines"], found["not_correct"]
        reached = f"{ratio:.2f} ({rates['several']:.0f} to {rates['one']:.0f} an hour)"
        measure = f"{engines} engines / one with {engines} workers"
        waited = f"{wait:.1f} s ({found['longest_wait_of']})"
        lines += [
            Line("7", measure, f"≥ {MIN_RATIO:g}", reached, ratio >= MIN_RATIO and not wrong),
            Line("7", "longest wait for others", f"≤ {MOST_WAIT_S:g} s", waited,
                 wait <= MOST_WAIT_S),
        ]  # fmt: skip
        if wrong:
            first = f"{len(wrong)}; {wrong[0][:100]}"
            lines.append(Line("7", "engines: not correct", "none", first, False))
    return lines


PARTS = {
    "places": Part("inputs elsewhere in every call", ".xml", (0, 1), _places),
    "kernelbench": Part("times beside KernelBench's", ".json", (0,), _kernelbench),
    "honest": Part("honest scores, leases", ".json", (0,), _honest),
    "first": Part("first verdicts", ".json", (0,), _first),
    "engines": Part("several engines", ".json", (0,), _engines),
    "attacks": Part("attacks", ".xml", (0, 1), _attacks),
    "corpus": Part("honest corpus", ".xml", (0, 1), _corpus),
}
"""In the table's order. Pytest exits with 1 where a test failed: its rows say which."""
