"""What a call is to leave of an input that the reference changes.

Not in ``rules/registry.py``: what an input was before is known of no output.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from gpu_sandbox.tensors.chunked import as_real, distance, pieces
from gpu_sandbox.verifier.numerics.expected import Expected

__all__ = ["Left", "expect_left"]

_STEPS, _STEPS_BESIDE = 16, 2
"""Of rounding, that what an input is changed to may be off by: as a whole, as where it is divided
by a norm; and but for that, in each element for itself."""
_LEAST_CHANGE = 4.0
"""Steps of rounding: what is changed by less may come out as it was."""
_CHANGE_OFF = 0.2
"""Of how far an input is changed. Rounding is in many directions: of a step that is as small as
that it takes next to nothing away."""


class Left(NamedTuple):
    """``before``: what it was, if it is looked at how far it has gone from there; ``beside``: by
    how much of its size it may be off otherwise."""

    expected: Expected
    before: torch.Tensor | None = None
    beside: float = math.inf

    @property
    def native(self) -> torch.Tensor:
        return self.expected.native

    def wrongly_changed(self, got: torch.Tensor) -> str:
        """How it has changed, where it is to change otherwise."""
        share, beside = self._change(got)
        if abs(share - 1.0) > _CHANGE_OFF:
            return f"by {share:.2f} times as much"
        if beside > self.beside:
            return f"otherwise: off by {beside:.2e} of its size, allowed {self.beside:.2e}"
        return ""

    def _change(self, got: torch.Tensor) -> tuple[float, float]:
        """How far ``got`` has gone from what it was, in the direction of the reference: one is as
        far, none at all is zero. One, too, where that is not more than rounding. And how far it is
        off otherwise, but for its size as a whole, in relative L2: a guess at a step, by a part of
        what makes it, goes as far, and elsewhere."""
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
        least = _LEAST_CHANGE * torch.finfo(dtype).eps
        share = dot / way if way > least * least * size else 1.0
        if norm == 0.0:
            return share, 0.0
        return share, math.sqrt(max(0.0, off - along * along / norm) / norm)


def expect_left(after: torch.Tensor, before: torch.Tensor) -> Left:
    """How near is told by what of it is changed: a step of an optimizer is small beside the
    weights, and is what matters. Never closer than some steps of rounding."""
    expected = Expected(after, None)
    if expected.rule is None or after.numel() == 0 or after.shape != before.shape:
        return Left(expected)
    changed, _ = distance(before, after)
    most, eps = expected.rule.blind, torch.finfo(after.dtype).eps
    expected.tolerance = min(max(most * changed, _STEPS * eps), most)
    return Left(expected, before, min(max(most * changed, _STEPS_BESIDE * eps), most))


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double().nan_to_num(0.0, 0.0, 0.0)
