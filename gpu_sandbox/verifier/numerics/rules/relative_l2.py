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
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENTS, ROUNDED
from gpu_sandbox.verifier.numerics.rules.rule import Figures, Rule

_SURE = 0.5  # of the bound: less in float32 is less than it in float64, too


class RelativeL2(Rule[float, None]):
    """The bound is the tolerance."""

    def prepare(self, reference: Reference) -> float | None:
        return reference.tolerance if reference.by_norms else None

    def check(self, bound: float, output: Comparison) -> Violation | None:
        relative, worst = output.distance
        if not relative > bound:
            return None
        expected = output.expected
        error, allowed = beside(relative, bound)
        reason = f"relative L2 error {error}, allowed {allowed}"
        reason += f", the reference's own {expected.own_error:.1e}" if expected.own_error else ""
        if expected.tf32_error:
            reason += f", with TF32 in its convolutions {expected.tf32_error:.1e}"
        found = output.violation(ELEMENTS.beyond(output.reference, 1.0), reason)
        return found or Violation(reason=reason, max_abs_error=finite_or_none(worst))

    def surely_ok(self, bound: float, figures: Figures) -> bool:
        share = ROUNDED if figures.in_float64 else _SURE
        return figures.is_same or figures.error_norm <= share * bound * figures.norm < math.inf

    def error(self, output: Comparison) -> float:
        return output.distance[0]
