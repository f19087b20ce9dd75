"""How far is the reference from itself, on inputs that differ by no more than rounding?

Where it rounds, compares or sorts, another right way to the same number falls on the other side
now and then: one element of a million is another integer, or off by a whole step. By how much is
measured on a few inputs, before there is a candidate, and so much more is allowed for: in
floating point never beyond what one without a float64 reference is granted, and of integers a
thousandth of the elements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import torch

from gpu_sandbox.child.expected import Expected, distance

__all__ = ["Nudged", "measured", "nudge"]

Outputs: TypeAlias = Sequence[torch.Tensor]

_MOST, _ENOUGH_S, _SLOWEST_S = 8, 0.03, 0.1
_STEPS = 4
_MARGIN, _FLIPS = 2.0, 4
_FEW, _OF = 2, 1000
"""Elements that may be others beside those that were seen, and of how many at least each."""


class Nudged(msgspec.Struct, frozen=True):
    """Of one output. ``relative``: L2 distance; ``worst``: of an element; ``flips``: how many
    integers or booleans were others, at most."""

    relative: float = 0.0
    worst: float = 0.0
    flips: int = 0

    def further(self, other: Nudged) -> Nudged:
        return Nudged(
            max(self.relative, other.relative),
            max(self.worst, other.worst),
            max(self.flips, other.flips),
        )

    def allow(self, expected: Expected) -> None:
        """Let an output of a call be as far from the reference's."""
        if self.flips:
            each = expected.native.numel() // _OF
            expected.loose = min(_FLIPS * self.flips + _FEW, each)
        if expected.rule is not None and _MARGIN * self.relative > expected.rule.floor:
            expected.loosen(min(expected.rule.k * self.relative, expected.rule.blind), self.worst)


def nudge(tensor: torch.Tensor) -> torch.Tensor:
    """Each element up or down, by as much as some steps of rounding make, at most."""
    if tensor.dtype not in (torch.float32, torch.float64):
        return tensor
    by = torch.rand(tensor.shape, dtype=tensor.dtype, device=tensor.device).sub_(0.5)
    return by.mul_(2 * _STEPS * torch.finfo(tensor.dtype).eps).add_(1.0).mul_(tensor)


def measured(
    outputs: int, pair: Callable[[int], tuple[Outputs, Outputs]], forward_s: float
) -> list[Nudged]:
    """Of so many outputs; ``pair`` runs the reference on some inputs, by number, and on those
    nudged: two that are equal, or all but equal, are not in every draw. Of slow ones nothing."""
    found = [Nudged() for _ in range(outputs)]
    if forward_s > _SLOWEST_S:
        return found
    began = time.monotonic()
    for number in range(_MOST):
        plain, nudged = pair(number)
        if [t.shape for t in plain] != [t.shape for t in nudged] or len(plain) != outputs:
            break
        seen = map(_between, plain, nudged)
        found = [a.further(b) for a, b in zip(found, seen, strict=True)]
        if time.monotonic() - began > _ENOUGH_S:
            break
    return found


def _between(plain: torch.Tensor, nudged: torch.Tensor) -> Nudged:
    if plain.dtype != nudged.dtype or plain.numel() == 0:
        return Nudged()
    if not (plain.is_floating_point() or plain.is_complex()):
        return Nudged(flips=int(torch.count_nonzero(plain != nudged)))
    relative, worst = distance(nudged, plain)
    return Nudged(relative=relative, worst=worst)
