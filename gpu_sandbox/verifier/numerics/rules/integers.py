"""Equality of integers and booleans, with a budget for those that rounding flips.

One in 100,000 may flip in one draw of sixty, which a few draws do not show. So that many may differ
although no flip was observed. But a few elements may be all that a call computes, as the tokens
that are put behind millions of others. Such differences are tolerated in few outputs of a verdict.
"""

from __future__ import annotations

import torch

from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation
from gpu_sandbox.verifier.numerics.rules.slices import dimensions_of

__all__ = ["Integers", "Seldom", "flipped"]

_ONE_IN = 10
_FLIPPED, _FEWEST = 0.25, 8
"""Of a column's integers so many may be others, or as few as that."""
_STRETCH = 64
"""Integers that lie next to each other, of which so many may be, too."""


class Integers:
    """The bound is how many may be others."""

    def prepare(self, reference: Reference) -> int | None:
        if reference.is_floating:
            return None
        return reference.expected.loose if reference.allclose is None else 0

    def check(self, bound: int, output: Comparison) -> Violation | None:
        brief = output.brief and not bound  # or all count
        found = output.violation(lambda n, t, g: n != g, "values differ", brief=brief)
        counted = output.reference.allclose is None
        if counted and _tolerates(bound, output, found) and found is not None:
            output.max_abs_error = found.max_abs_error
            return None
        return found


class Seldom:
    """Of the outputs of one verdict, as they are compared."""

    def __init__(self) -> None:
        self._looked_at = self._let_off = 0

    def looked(self) -> None:
        self._looked_at += 1

    def lets_off(self) -> bool:
        """Whether one more may have more of them than were seen to flip."""
        if self._let_off > self._looked_at // _ONE_IN:
            return False
        self._let_off += 1
        return True


def _tolerates(bound: int, output: Comparison, found: Violation | None) -> bool:
    """Whether rounding may have flipped those that differ."""
    expected = output.expected
    if expected.seldom is not None:
        expected.seldom.looked()
    if found is None or found.wrong > bound or flipped(expected.native, output.got):
        return False
    return found.wrong <= expected.flips or expected.seldom is None or expected.seldom.lets_off()


def flipped(native: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether those that are others are much of a column, or of a stretch of memory order."""
    others = (native != got).detach()
    flat = others.reshape(-1)
    for start in (0, _STRETCH // 2):
        whole = flat[start : start + (flat.numel() - start) // _STRETCH * _STRETCH]
        if whole.numel() and _many(whole.reshape(-1, _STRETCH).sum(dim=1), _STRETCH):
            return True
    last = flat[-_STRETCH:]
    if _many(last.sum(), last.numel()):
        return True
    sizes = {d: others.shape[d] for d in dimensions_of(others)}
    return any(_many(_along(others, d), others.numel() // size) for d, size in sizes.items())


def _many(others: torch.Tensor, of: int) -> bool:
    return int(others.max()) > max(_FLIPPED * of, _FEWEST)


def _along(others: torch.Tensor, dimension: int) -> torch.Tensor:
    rest = [d for d in range(others.dim()) if d != dimension]
    return others.sum(dim=rest)
