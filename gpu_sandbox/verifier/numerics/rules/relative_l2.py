"""The relative L2 error of an output as a whole."""

from __future__ import annotations

import math

from events.figures import beside
from gpu_sandbox.verifier.numerics.comparison import (
    Comparison,
    Reference,
    Violation,
    finite_or_none,
)
from gpu_sandbox.verifier.numerics.rules.elements import ROUNDED, beyond
from gpu_sandbox.verifier.numerics.rules.rule import Figures

__all__ = ["RelativeL2"]

_SURE = 0.5
"""Of the bound: what is less in the fast path's figures is less by the rule's, too."""


class RelativeL2:
    """The bound is the tolerance."""

    def prepare(self, reference: Reference) -> float | None:
        return reference.allowed.tolerance if reference.by_norms else None

    def check(self, bound: float, output: Comparison) -> Violation | None:
        relative, worst = output.distance
        if not relative > bound:
            return None
        expected = output.expected
        error, allowed = beside(relative, bound)
        reason = f"relative L2 error {error}, allowed {allowed}"
        reason += f", the reference's own {expected.own:.1e}" if expected.own else ""
        if expected.granted:
            reason += f", with TF32 in its convolutions {expected.granted:.1e}"
        found = output.violation(beyond(output.reference, 1.0), reason)
        return found or Violation(reason=reason, max_abs_error=finite_or_none(worst))

    def surely_ok(self, bound: float, figures: Figures) -> bool:
        share = ROUNDED if figures.in_float64 else _SURE
        return figures.is_same or figures.off <= share * bound * figures.size < math.inf

    def error(self, output: Comparison) -> float:
        return output.distance[0]
