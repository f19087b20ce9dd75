"""What a single element may be off by, beside its row and a typical one."""

from __future__ import annotations

import torch

from gpu_sandbox.tensors.chunked import pieces, row_rms, some_rows
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation, Wrong
from gpu_sandbox.verifier.numerics.rules.rule import Figures

__all__ = ["ELEMENT", "ROUNDED", "Elements", "beyond", "slack_of"]

ELEMENT = 50.0
"""Tolerances that a single element may be off by, in RMS."""
ROUNDED = 1 - 1e-6
"""A difference in float32 may be so much of what it is in float64."""
_OWN_ERRORS = 8
"""Times the largest error of the reference's own run."""
_SPREAD = 8.0
"""An error of one tolerance, spread evenly over ten million elements, is five or six times
its RMS somewhere: maybe where the row is next to nothing, as behind a clamp."""
_LARGE_ROW = 0.9
"""Not the tensor's RMS: a few rows that are much larger would excuse errors in all others."""


class Elements:
    """The bound is the slack: an absolute error that any element may have."""

    def prepare(self, reference: Reference) -> float | None:
        return reference.allowed.slack if reference.by_norms else None

    def check(self, bound: float, output: Comparison) -> Violation | None:
        return output.violation(beyond(output.reference, ELEMENT), "single elements are off")

    def surely_ok(self, bound: float, figures: Figures) -> bool:
        """The rows are looked at if need be."""
        share = 1.0 if figures.in_float64 else ROUNDED
        if figures.is_same or figures.largest <= share * bound:
            return True
        return figures.largest <= share * _anywhere(figures.output.reference)


def slack_of(worst: float) -> float:
    """``worst``: the largest error of the reference's own run."""
    return _OWN_ERRORS * worst


def beyond(reference: Reference, times: float) -> Wrong:
    """Elements beyond ``times`` the tolerance of their row (the last dimension)."""
    anywhere = _anywhere(reference)

    def off(_: torch.Tensor, truth: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        finite = truth.double().nan_to_num(0.0, 0.0, 0.0)
        error = (got.double() - truth.double()).nan_to_num(0.0, 0.0, 0.0).abs()
        rms = _rms_of(truth, reference.expected.typical)
        bound = times * reference.allowed.tolerance * (rms + finite.abs())
        return error > bound.clamp(min=anywhere * times / ELEMENT)

    return off


def _anywhere(reference: Reference) -> float:
    """What any element may be off by, whatever its row is."""
    allowed = reference.allowed
    return max(allowed.slack, _SPREAD * allowed.tolerance * _large_row(reference))


def _large_row(reference: Reference) -> float:
    """RMS, of some of the rows: to select among millions takes a GPU a second."""
    expected = reference.expected
    parts = pieces(some_rows(expected.truth))
    rms = torch.cat([_rms_of(rows, expected.typical).flatten() for (rows,) in parts])
    return float(rms.kthvalue(max(1, int(_LARGE_ROW * rms.numel()))).values)


def _rms_of(rows: torch.Tensor, typical: torch.Tensor | None) -> torch.Tensor:
    """Of each row. ``typical``: if there is one, of so few elements that they are one piece."""
    rms = row_rms(rows)
    return rms if typical is None else torch.maximum(rms, typical.reshape(rms.shape))
