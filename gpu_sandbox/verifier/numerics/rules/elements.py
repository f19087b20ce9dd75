"""A bound on the error of single elements, beside their row and a usual one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from gpu_sandbox.tensors.chunked import pieces, row_rms, some_rows
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation, Wrong
from gpu_sandbox.verifier.numerics.rules.rule import (
    Calibration,
    Figures,
    Rule,
    RunPair,
    is_discrete,
)
from gpu_sandbox.verifier.numerics.tolerances import DtypeTolerance

if TYPE_CHECKING:
    from gpu_sandbox.verifier.numerics.expected import Expected

ELEMENT = 50.0  # tolerances that a single element may be off by, in RMS
ROUNDED = 1 - 1e-6  # A difference in float32 may be so much of what it is in float64
_OWN_ERRORS, _MOVES = 8.0, 2.0  # times the own run's largest error, and its move by a few ulp
_SPREAD = 8.0
"""An error of one tolerance, spread evenly over ten million elements, is five or six times
its RMS somewhere: maybe where the row is next to nothing, as behind a clamp."""
_LARGE_ROW = 0.9  # not all: a few much larger rows would excuse errors in all others


class ElementBound(NamedTuple):
    max_error: float = 0.0  # absolute, of any element
    own: float = 0.0  # the same of the reference's own run, beside its float64 run


class Elements(Rule[float, ElementBound]):
    """The bound is an absolute error that any element may have."""

    def calibrate(self, runs: Calibration) -> ElementBound | None:
        if not runs.in_float64:
            return None
        own = max(pair.distance[1] for pair in runs.pairs)
        return ElementBound(_OWN_ERRORS * own * runs.factor, own)

    def spread(self, pair: RunPair) -> float | None:
        return None if is_discrete(pair.truth) else pair.distance[1]

    def widen(
        self, bound: ElementBound | None, spread: float | None, expected: Expected
    ) -> ElementBound | None:
        return bound if spread is None else _at_least(bound, _MOVES * spread)

    def grant(
        self, bound: ElementBound | None, pair: RunPair, by: DtypeTolerance
    ) -> ElementBound | None:
        return _at_least(bound, _OWN_ERRORS * pair.distance[1])

    def for_timed(self, bound: ElementBound) -> ElementBound:
        return ElementBound(bound.max_error + bound.own)

    def scale(self, bound: ElementBound, factor: float) -> ElementBound:
        return ElementBound(bound.max_error * factor, bound.own)

    def prepare(self, reference: Reference) -> float | None:
        if not reference.by_norms:
            return None
        expected = reference.expected
        max_error: float = expected.bounds.get(self, ElementBound()).max_error
        return max_error + expected.nondeterminism.max_error

    def check(self, bound: float, output: Comparison) -> Violation | None:
        return output.violation(
            self.beyond(output.reference, ELEMENT), "single elements exceed their tolerance"
        )

    def surely_ok(self, bound: float, figures: Figures) -> bool:
        share = 1.0 if figures.in_float64 else ROUNDED
        if figures.is_same or figures.max_error <= share * bound:
            return True  # without a look at the rows
        return figures.max_error <= share * _in_any_row(figures.output.reference, bound)

    def beyond(self, reference: Reference, times: float) -> Wrong:
        """Elements beyond ``times`` the tolerance of their row (the last dimension)."""
        anywhere = _in_any_row(reference, self.prepare(reference) or 0.0)

        def off(_: torch.Tensor, truth: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
            finite = truth.double().nan_to_num(0.0, 0.0, 0.0)
            error = (got.double() - truth.double()).nan_to_num(0.0, 0.0, 0.0).abs()
            rms = _rms_of(truth, reference.expected.usual_rms)
            bound = times * reference.tolerance * (rms + finite.abs())
            return error > bound.clamp(min=anywhere * times / ELEMENT)

        return off


ELEMENTS = Elements()


def _at_least(bound: ElementBound | None, max_error: float) -> ElementBound:
    bound = bound or ElementBound()
    return bound._replace(max_error=max(bound.max_error, max_error))


def _in_any_row(reference: Reference, bound: float) -> float:
    """Absolute error that is allowed of an element, whatever its row is."""
    return max(bound, _SPREAD * reference.tolerance * _large_row(reference))


def _large_row(reference: Reference) -> float:
    """RMS, of some of the rows: to select among millions takes a GPU a second."""
    expected = reference.expected
    parts = pieces(some_rows(expected.truth))
    rms = torch.cat([_rms_of(rows, expected.usual_rms).flatten() for (rows,) in parts])
    return float(rms.kthvalue(max(1, int(_LARGE_ROW * rms.numel()))).values)


def _rms_of(rows: torch.Tensor, usual: torch.Tensor | None) -> torch.Tensor:
    """Of each row, at least the ``usual`` one: of so few elements that they are one piece."""
    rms = row_rms(rows)
    return rms if usual is None else torch.maximum(rms, usual.reshape(rms.shape))
