"""What a worker's claim is worth beside what the verifier knows by itself. Pure."""

from __future__ import annotations

from gpu_sandbox.api.statistics import Estimate

__all__ = ["WRITING", "agree", "believed", "is_corroborated"]

WRITING = "what writing its outputs takes"

_EXCESS, _DOUBT = 1.05, 1.25
_BEYOND = 1.1
"""Where no gates are, as long as it is not sure that it is more: how much is not sure is in the
hands of a candidate that makes noise where it is not timed."""
_SHARE, _GATED_SHARE = 0.7, 0.9
"""Of what filling its outputs takes: another way to write may be faster. On a GPU, where gates are,
every launch takes that, and processes differ by a tenth."""


def agree(claim: Estimate, bound: Estimate, blur: float) -> bool:
    """Whether waiting would not bring them closer. ``blur``: what the bound may be off by."""
    return bound.ratio <= claim.ratio * _EXCESS + blur


def is_corroborated(claim: Estimate, bound: Estimate, blur: float) -> bool:
    """Whether the outer clock's ``bound`` leaves the claim possible."""
    surely = bound.low > claim.ratio * _EXCESS + blur
    return not surely and bound.ratio <= claim.ratio * _DOUBT + blur


def believed(
    claim: Estimate, bound: Estimate, blur: float, *, gated: bool, least: float
) -> tuple[Estimate, str]:
    """And what decided, if that was not the claim: the outer clock, where it does not bear that
    out, or, without gates, bears it out to a part; and ``least``, which no call can do without,
    where the claim is far below it, and the clock is, too."""
    found, why = claim, ""
    if not is_corroborated(claim, bound, blur):
        found, why = bound, "the outer clock"
    elif not gated and claim.ratio < (bound.ratio - blur) / _BEYOND:
        found, why = claim.at_least((bound.ratio - blur) / _BEYOND), "the outer clock"
    share = _GATED_SHARE if gated else _SHARE
    if claim.ratio < share * least and found.ratio < least:
        found, why = found.at_least(least), WRITING
    return found, why
