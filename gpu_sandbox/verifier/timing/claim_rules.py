"""Rules for self-reported times and labels of timings. Pure."""

from __future__ import annotations

from events.outcomes import Label
from gpu_sandbox.api.statistics import Estimate

CLOCK, WRITING = "the verifier's clock", "the time to write its outputs"

RESOLUTION_NS = 300.0
"""Of CUDA events: more pairs do not tell kernels of a few microseconds apart."""
_EXCESS, _DISPUTED = 1.05, 1.25
_CREDIBLE = 1.1
"""Without gates, beyond this the bound counts in part: a candidate could make noise where it is not
timed, so that it is never sure that its time is longer."""
_SHARE, _GATED_SHARE = 0.7, 0.9
"""Of the time to fill outputs: another way to write may be faster. On a GPU every launch takes that
time, and processes differ by a tenth."""
_WORTH_SAYING = 0.01  # relative width of an interval; a narrower one misleads nobody
_UNCHECKED = 0.05
_SKIPPED_NS = 75_000.0  # gain of a worker that answers from native code, on the CPU; 65 us seen


def agrees(claim: Estimate, bound: Estimate, uncertainty: float) -> bool:
    """Whether more pairs would not bring reported ratio and bound closer."""
    return bound.ratio <= claim.ratio * _EXCESS + uncertainty


def is_corroborated(claim: Estimate, bound: Estimate, uncertainty: float) -> bool:
    """Whether the bound by the verifier's clock leaves the reported ratio possible."""
    surely = bound.low > claim.ratio * _EXCESS + uncertainty
    return not surely and bound.ratio <= claim.ratio * _DISPUTED + uncertainty


def decide(
    claim: Estimate, bound: Estimate, uncertainty: float, *, gated: bool, least: float
) -> tuple[Estimate, str]:
    """The ratio to score, and what decided if that was not the reported one.

    The verifier's clock decides where it does not corroborate the reported ratio, or, without
    gates, only in part; ``least``, the time to write outputs, where both are below it and the
    reported one far below."""
    found, why = claim, ""
    if not is_corroborated(claim, bound, uncertainty):
        found, why = bound, CLOCK
    elif not gated and claim.ratio < (bound.ratio - uncertainty) / _CREDIBLE:
        found, why = claim.at_least((bound.ratio - uncertainty) / _CREDIBLE), CLOCK
    share = _GATED_SHARE if gated else _SHARE
    if claim.ratio < share * least and found.ratio < least:
        found, why = found.at_least(least), WRITING
    return found, why


def disputed_note(scored: float, why: str, reported: float) -> str:
    """Why a candidate is not scored by the ratio that it reports."""
    own = f"{1 / reported:.2f}x by the candidate's own clock"
    return f"timing disputed: {1 / scored:.2f}x by {why}, {own}; the lower counts"


# --- labels: what qualifies a speedup because of how it was measured


def labels_on_cpu(uncertainty_ns: float, output_ns: float, each_ns: float) -> dict[Label, str]:
    """Label → reason. No reported time is checked more closely than by the clock's uncertainty and
    what a worker may skip; ``output_ns`` of that grows with what is returned. ``each_ns``: a call
    of the faster side."""
    uncertainty = (uncertainty_ns + _SKIPPED_NS + output_ns) / each_ns
    if uncertainty < _UNCHECKED:
        return {}
    why = "its calls are short beside what is around them: no claim is checked closer than"
    return {"below-resolution": f"{why} {uncertainty:.0%}"}


def timing_labels(found: Estimate, each_ns: float, undecided: str) -> dict[Label, str]:
    """Label → reason, on a GPU. ``each_ns``: a call of the faster side; ``undecided``: why no gate
    decided, if one was needed.

    The resolution explains a wide interval only where that, in time, is narrower than what events
    tell apart; a wider one is noise."""
    labels: dict[Label, str] = {}
    if found.half_width >= _WORTH_SAYING and found.half_width * each_ns < RESOLUTION_NS:
        labels["below-resolution"] = (
            f"of calls of {each_ns / 1e3:.3g} us, readings tell the ratio to within"
            f" {found.half_width:.1%} only"
        )
    if undecided:
        labels["not-gated"] = f"no gate has checked its time: {undecided}"
    return labels
