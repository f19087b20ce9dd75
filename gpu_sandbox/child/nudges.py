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

__all__ = ["NUDGED", "Nudged", "measured", "nudge"]

Outputs: TypeAlias = Sequence[torch.Tensor]

NUDGED = (torch.float32, torch.float64)
_MOST, _ENOUGH_S, _SLOWEST_S = 8, 0.03, 0.1
_MOST_COUNTED, _ENOUGH_COUNTED_S = 20, 0.1
"""Where integers may flip: one in ten draws, maybe, and a verdict looks at a hundred."""
_SELDOM = 100_000
"""Of so many elements one may flip in one draw of sixty, which is not seen in twenty."""
_STEPS = 4
_MARGIN, _FLIPS = 2.0, 4
_FEW, _OF = 2, 1000
"""Elements that may be others beside those that were seen, and of how many at least each."""


class Nudged(msgspec.Struct, frozen=True):
    """Of one output. ``relative``: L2 distance; ``worst``: of an element; ``flips``: how many
    integers or booleans were others, at most; ``rounds``: there is an input that rounding moves."""

    relative: float = 0.0
    worst: float = 0.0
    flips: int = 0
    rounds: bool = False

    def further(self, other: Nudged) -> Nudged:
        return Nudged(
            max(self.relative, other.relative),
            max(self.worst, other.worst),
            max(self.flips, other.flips),
            self.rounds or other.rounds,
        )

    def allow(self, expected: Expected) -> None:
        """Let an output of a call be as far from the reference's."""
        elements = expected.native.numel()
        if self.rounds and expected.rule is None:
            seen = min(_FLIPS * self.flips + _FEW, elements // _OF) if self.flips else 0
            expected.loose = max(seen, elements // _SELDOM)
        if expected.rule is not None and _MARGIN * self.relative > expected.rule.floor:
            expected.loosen(min(expected.rule.k * self.relative, expected.rule.blind), self.worst)


def nudge(tensor: torch.Tensor) -> torch.Tensor:
    """Each element up or down, by as much as some steps of rounding make, at most."""
    if tensor.dtype not in NUDGED:
        return tensor
    by = torch.rand(tensor.shape, dtype=tensor.dtype, device=tensor.device).sub_(0.5)
    return by.mul_(2 * _STEPS * torch.finfo(tensor.dtype).eps).add_(1.0).mul_(tensor)


def measured(
    outputs: int,
    pair: Callable[[int], tuple[Outputs, Outputs]],
    forward_s: float,
    *,
    rounds: bool = True,
) -> list[Nudged]:
    """Of so many outputs. ``pair`` runs the reference on some inputs, by number, and on those
    nudged: two that are equal, or all but equal, are not in every draw. ``rounds``: there is an
    input that is moved. Of slow ones nothing."""
    found = [Nudged(rounds=rounds) for _ in range(outputs)]
    if forward_s > _SLOWEST_S or not rounds:
        return found
    began, most, enough_s = time.monotonic(), _MOST, _ENOUGH_S
    for number in range(_MOST_COUNTED):
        try:
            plain, nudged = pair(number)
        except Exception:  # it looks at its inputs more closely, or there is no memory
            break
        if any(_is_counted(t) for t in plain):
            most, enough_s = _MOST_COUNTED, _ENOUGH_COUNTED_S
        if [t.shape for t in plain] != [t.shape for t in nudged] or len(plain) != outputs:
            break
        seen = map(_between, plain, nudged)
        found = [a.further(b) for a, b in zip(found, seen, strict=True)]
        if number + 1 >= most or time.monotonic() - began > enough_s:
            break
    return found


def _between(plain: torch.Tensor, nudged: torch.Tensor) -> Nudged:
    if plain.dtype != nudged.dtype or plain.numel() == 0:
        return Nudged()
    if _is_counted(plain):
        return Nudged(flips=int(torch.count_nonzero(plain != nudged)))
    relative, worst = distance(nudged, plain)
    return Nudged(relative=relative, worst=worst)


def _is_counted(output: torch.Tensor) -> bool:
    return not (output.is_floating_point() or output.is_complex())
