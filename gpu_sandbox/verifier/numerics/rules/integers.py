"""Equality of integers and booleans, with a budget for those that rounding flips.

One in 100,000 may flip in one draw of sixty, which a few draws do not show. So that many may differ
although no flip was observed. But a few elements may be all that a call computes, so such
differences are tolerated in few outputs of a verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation
from gpu_sandbox.verifier.numerics.rules.rule import Rule, RunPair, is_discrete
from gpu_sandbox.verifier.numerics.rules.slices import dimensions_of

if TYPE_CHECKING:
    from gpu_sandbox.verifier.numerics.expected import Expected

_ONE_IN = 10
_UNOBSERVED_ONE_IN = 100_000
_TIMES_OBSERVED, _AND_MORE, _MAX_ONE_IN = 4, 2, 1000
_MAX_SHARE, _ALWAYS_ALLOWED = 0.25, 8  # of a slice's integers that may differ, or as few as that
_STRETCH = 64  # adjacent integers, of which that share may differ, too


class FlipBudget:
    """Outputs of one verdict in which more may differ than was observed: one in ten, and one."""

    def __init__(self) -> None:
        self._compared = self._used = 0

    def count(self) -> None:
        self._compared += 1

    def tolerates(self) -> bool:
        if self._used > self._compared // _ONE_IN:
            return False
        self._used += 1
        return True


class FlipBound(NamedTuple):
    limit: int = 0  # elements that may differ; more than `observed` by `budget`, if there is one
    observed: int = 0
    budget: FlipBudget | None = None


class Integers(Rule[FlipBound, FlipBound]):
    def spread(self, pair: RunPair) -> int | None:
        return (
            int(torch.count_nonzero(pair.truth != pair.other)) if is_discrete(pair.truth) else None
        )

    def widen(
        self, bound: FlipBound | None, spread: int | None, expected: Expected
    ) -> FlipBound | None:
        if expected.by_dtype is not None:
            return bound
        flips, elements = spread or 0, expected.native.numel()
        most = elements // _MAX_ONE_IN
        limit = min(_TIMES_OBSERVED * flips + _AND_MORE, most) if flips else 0
        limit = max(limit, elements // _UNOBSERVED_ONE_IN)
        return FlipBound(limit, min(flips, most), expected.flip_budget)

    def for_timed(self, bound: FlipBound) -> FlipBound:
        return FlipBound(bound.limit)

    def prepare(self, reference: Reference) -> FlipBound | None:
        if reference.is_floating:
            return None
        none = FlipBound()
        return reference.expected.bounds.get(self, none) if reference.allclose is None else none

    def check(self, bound: FlipBound, output: Comparison) -> Violation | None:
        brief = output.brief and not bound.limit  # or all count
        found = output.violation(lambda n, t, g: n != g, "values differ", brief=brief)
        if output.reference.allclose is not None or not _tolerates(bound, output, found):
            return found
        if found is not None:
            output.max_abs_error = found.max_abs_error
        return None


INTEGERS = Integers()


def _tolerates(bound: FlipBound, output: Comparison, found: Violation | None) -> bool:
    """Whether rounding may have flipped those that differ."""
    if bound.budget is not None:
        bound.budget.count()
    if found is None:
        return True
    if found.wrong > bound.limit or is_clustered(output.expected.native, output.got):
        return False
    return found.wrong <= bound.observed or bound.budget is None or bound.budget.tolerates()


def is_clustered(native: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether differences are much of a slice, or of a stretch of adjacent elements."""
    others = (native != got).detach()
    flat = others.reshape(-1)
    for start in (0, _STRETCH // 2):
        whole = flat[start : start + (flat.numel() - start) // _STRETCH * _STRETCH]
        if whole.numel() and _is_many(whole.reshape(-1, _STRETCH).sum(dim=1), _STRETCH):
            return True
    last = flat[-_STRETCH:]
    if _is_many(last.sum(), last.numel()):
        return True
    for dimension in dimensions_of(others):
        counts = others.sum(dim=[d for d in range(others.dim()) if d != dimension])
        if _is_many(counts, others.numel() // others.shape[dimension]):
            return True
    return False


def _is_many(counts: torch.Tensor, of: int) -> bool:
    return int(counts.max()) > max(_MAX_SHARE * of, _ALWAYS_ALLOWED)
