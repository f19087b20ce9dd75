"""Compare inputs that the reference changes in place.

Not in ``rules/registry.py``: outputs have no value before the call.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from gpu_sandbox.tensors.chunked import as_real, distance, pieces
from gpu_sandbox.verifier.numerics.expected import Expected

_MIN_ULP, _MIN_ULP_BESIDE = 16, 2
"""That an input may be off by: as a whole, as where it is divided by a norm; and but for that, in
each element for itself."""
_MIN_CHANGE_ULP = 4.0  # A smaller change may come out as none
_MAX_STEP_ERROR = 0.2
"""Of how far an input is changed. Rounding is in many directions: of a step that is as small as
that it takes next to nothing away."""


class MutatedInput(NamedTuple):
    """An input after the call. ``before``: its value before, if the step from there is compared;
    ``max_error``: in relative L2, but for its size as a whole."""

    expected: Expected
    before: torch.Tensor | None = None
    max_error: float = math.inf

    @property
    def native(self) -> torch.Tensor:
        return self.expected.native

    def wrong_change(self, got: torch.Tensor) -> str:
        """Say how the change is wrong; empty if it is not."""
        share, error = self._step(got)
        if abs(share - 1.0) > _MAX_STEP_ERROR:
            return f"by {share:.2f} times the reference's change"
        if error > self.max_error:
            return f"to other values: off by {error:.2e} of its size, allowed {self.max_error:.2e}"
        return ""

    def _step(self, got: torch.Tensor) -> tuple[float, float]:
        """The change as a multiple of the reference's, in its direction (one where that is within
        rounding); and the relative L2 error beside the size as a whole. A guess at a step, by a
        part of what makes it, goes as far, and elsewhere."""
        if self.before is None or self.before.shape != self.native.shape:
            return 1.0, 0.0
        way = size = dot = off = along = norm = 0.0
        tensors = (as_real(t) for t in (self.before, self.native, got))
        for before, after, mine in pieces(*tensors):
            start, end = _finite(before), _finite(after)
            change, error = end - start, _finite(mine) - end
            way += float(change.square().sum())
            dot += float((change * (change + error)).sum())
            size += float(start.square().sum())
            off += float(error.square().sum())
            along += float((error * end).sum())
            norm += float(end.square().sum())
        dtype = self.native.dtype.to_real() if self.native.is_complex() else self.native.dtype
        least = _MIN_CHANGE_ULP * torch.finfo(dtype).eps
        share = dot / way if way > least * least * size else 1.0
        if norm == 0.0:
            return share, 0.0
        return share, math.sqrt(max(0.0, off - along * along / norm) / norm)


def expect_mutated(after: torch.Tensor, before: torch.Tensor) -> MutatedInput:
    """Bound the error by the change: an optimizer's step is small beside the weights. Never closer
    than some ulp."""
    expected = Expected(after)
    if expected.by_dtype is None or after.numel() == 0 or after.shape != before.shape:
        return MutatedInput(expected)
    changed, _ = distance(before, after)
    most, eps = expected.by_dtype.without_float64, torch.finfo(after.dtype).eps
    expected.tolerance = min(max(most * changed, _MIN_ULP * eps), most)
    return MutatedInput(expected, before, min(max(most * changed, _MIN_ULP_BESIDE * eps), most))


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double().nan_to_num(0.0, 0.0, 0.0)
