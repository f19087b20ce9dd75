"""One verdict, and one baseline, of those on each of a task's input sets. Pure.

Figures are geometric means. What prompts may quote (reason, logs, resources, observations, peak
memory) is never of a hidden set: that is in the notes, which no prompt has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from events.outcomes import (
    BASELINE_LABELS,
    LABELS,
    CompileFailed,
    Correct,
    Outcome,
    SetScore,
    WrongResult,
)
from gpu_sandbox.api.evaluator import Baseline, Verdict
from gpu_sandbox.evaluate.input_sets import InputSet

_HIDDEN_REASON = "on a hidden input set; it passed all that prompts show"


def verdict_on_all(judged: Sequence[tuple[InputSet, Verdict]], root_ms: float | None) -> Verdict:
    """Of verdicts on sets until one failed, or of all. ``root_ms`` is the root's runtime."""
    last, verdict = judged[-1]
    found = [(each, v.outcome) for each, v in judged if isinstance(v.outcome, Correct)]
    notes = _notes(judged)
    outcome: Outcome = verdict.outcome
    source = verdict
    if len(found) == len(judged):
        outcome, source = _correct(found, root_ms), _without_hidden(*judged[0])
    elif last.hidden:
        notes.append(f"{outcome.reason} (input set {last.name!r})")
        outcome = _kind_alone(outcome)
        source = replace(_without_hidden(*judged[0]), run_log="", observations=None)
    elif not isinstance(outcome, CompileFailed):  # a build is the same on each set
        outcome = replace(outcome, reason=f"input set {last.name!r}: {outcome.reason}")
    return replace(
        verdict,
        outcome=outcome,
        notes=notes,
        compile_log=source.compile_log,
        run_log=source.run_log,
        resources=source.resources,
        observations=source.observations,
        timings_s=_summed(v.timings_s for _, v in judged),
        queue_s=sum(v.queue_s for _, v in judged),
        cached=all(v.cached for _, v in judged),
        busy=next((v.busy for _, v in judged if v.busy), []),
    )


def baseline_of_all(found: Sequence[tuple[InputSet, Baseline]]) -> Baseline:
    """Without a runtime, as the first is that has none."""
    for each, baseline in found:
        if baseline.runtime_ms is None and baseline.outcome is not None:
            reason = f"input set {each.name!r}: {baseline.outcome.reason}"
            outcome = replace(baseline.outcome, reason=reason)
            return replace(baseline, outcome=outcome)
    every = [baseline for _, baseline in found]
    spreads = [b.spread for b in every if b.spread is not None]
    return replace(
        every[0],
        runtime_ms=_mean(b.runtime_ms for b in every if b.runtime_ms is not None),
        spread=max(spreads, default=None),
        repetitions=min(b.repetitions for b in every),
        timings_s=_summed(b.timings_s for b in every),
        audit=[f"input set {each.name!r}: {line}" for each, b in found for line in b.audit],
        notes=_notes(found),
        cached=all(b.cached for b in every),
        measured_at=min(b.measured_at for b in every),
        labels=[label for label in BASELINE_LABELS if any(label in b.labels for b in every)],
    )


def _kind_alone(outcome: Outcome) -> Outcome:
    if isinstance(outcome, WrongResult):
        return WrongResult(reason=_HIDDEN_REASON)
    return replace(outcome, reason=_HIDDEN_REASON)


def _without_hidden(judged: InputSet, verdict: Verdict) -> Verdict:
    """Without logs and observations where the set is hidden: a candidate may print its shapes, or
    build for them."""
    if not judged.hidden:
        return verdict
    return replace(verdict, compile_log="", run_log="", resources=[], observations=None)


def _correct(found: Sequence[tuple[InputSet, Correct]], root_ms: float | None) -> Correct:
    every = [outcome for _, outcome in found]
    ratio = _mean(one.ratio for one in every)
    nearest = max(every, key=_nearness)
    eager = _eager(every)
    baseline_ms = _mean(one.baseline_ms for one in every)
    bounded = [one.bounded_speedup for one in every if one.bounded_speedup is not None]
    spreads = [one.candidate_spread for one in every if one.candidate_spread is not None]
    shown = [outcome for each, outcome in found if not each.hidden] or every
    needy = max(shown, key=lambda one: one.peak_bytes or 0)
    return Correct(
        runtime_ms=(baseline_ms if root_ms is None else root_ms) * ratio,
        speedup=1 / ratio,
        ratio=ratio,
        ratio_low=_mean(one.ratio_low for one in every),
        ratio_high=_mean(one.ratio_high for one in every),
        bounded_speedup=_mean(bounded) if len(bounded) == len(every) else None,
        pairs=min(one.pairs for one in every),
        candidate_ms=_mean(one.candidate_ms for one in every),
        candidate_spread=max(spreads, default=None),
        baseline_ms=baseline_ms,
        max_abs_error=nearest.max_abs_error,
        error=nearest.error,
        error_bound=nearest.error_bound,
        trial=nearest.trial,
        labels=[label for label in LABELS if any(label in one.labels for one in every)],
        peak_bytes=needy.peak_bytes,
        reference_peak_bytes=needy.reference_peak_bytes,
        first_call_ms=every[0].first_call_ms,
        sets=[_score(each, outcome) for each, outcome in found],
        **eager,
    )


def _score(each: InputSet, outcome: Correct) -> SetScore:
    return SetScore(
        name=each.name,
        hidden=each.hidden,
        speedup=outcome.speedup,
        speedup_low=1 / outcome.ratio_high,
        speedup_high=1 / outcome.ratio_low,
        candidate_ms=outcome.candidate_ms,
        baseline_ms=outcome.baseline_ms,
        eager_speedup=outcome.eager_speedup,
    )


def _eager(every: Sequence[Correct]) -> dict[str, Any]:
    """Of calls in a loop, where each set has them."""
    names = ("eager_speedup", "eager_low", "eager_high", "eager_ms", "eager_baseline_ms")
    found: dict[str, Any] = {}
    for name in names:
        values = [getattr(one, name) for one in every]
        if any(value is None for value in values):
            return {}
        found[name] = _mean(values)
    return found


def _nearness(outcome: Correct) -> float:
    """To what the protocol allows."""
    if outcome.error is None or not outcome.error_bound:
        return 0.0
    return outcome.error / outcome.error_bound


def _notes(found: Sequence[tuple[InputSet, Verdict | Baseline]]) -> list[str]:
    """Each once, with the input sets that it is of, where it is not of all. A label's reason is a
    note that begins with its name."""
    names: dict[str, list[str]] = {}
    for each, one in found:
        for note in one.notes:
            names.setdefault(note, []).append(repr(each.name))
    return [
        note if len(sets) == len(found) else f"{note} (input set {', '.join(sets)})"
        for note, sets in names.items()
    ]


def _summed(timings_s: Iterable[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for timings in timings_s:
        for name, seconds in timings.items():
            total[name] = total.get(name, 0.0) + seconds
    return total


def _mean(values: Iterable[float]) -> float:
    """Geometric; of values above zero."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))
