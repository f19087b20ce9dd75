"""The one number that much of an output is, and beside which all else is next to nothing.

Scores that are masked by -1e9: norms, those of rows, and the size of what counts among most
elements go by the mask, and no score need be there. So it is to be where it belongs, and what is
looked at by norms is the rest, as it is beside infinities.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpu_sandbox.child.places import some_of

__all__ = ["fill_of", "without_fill"]

_FEWEST = 256
"""Elements of an output that is looked at, and as many of them at least are to be one number."""
_LOOKED_AT = 1 << 13
_OFTEN = 1 / 64
_FROM_THE_TOP = (1 / 128, 1 / 16, 1 / 4)
"""Where it is among sizes in order. What is larger has so little of the norm that it is a fifteenth
as often: so of a number that is as often as that, the first is one; if it is a ninth of all or
more, maybe the second only; of nine in ten the third."""
_AS_FAR = 1 / 64
"""Of the number: what was added to it in half precision has made two or three of one."""
_BESIDE = 1 / 4
"""Of the norm of all: what else there is has less."""


def fill_of(output: torch.Tensor) -> float | None:
    """Its absolute value. None where there is no such number."""
    if not output.is_floating_point() or output.numel() < _FEWEST:
        return None
    flat = output.detach().reshape(-1)
    if flat.numel() > 2 * _LOOKED_AT:
        flat = flat[some_of(flat.numel(), _LOOKED_AT, flat.device)]
    size = flat.abs().nan_to_num_(0.0, 0.0, 0.0).double().sort().values
    count = size.numel()
    square = size.square()
    told: list[torch.Tensor] = []
    for share in _FROM_THE_TOP:
        fill = size[count - 1 - int(share * count)]
        rest = torch.where((size - fill).abs() > _AS_FAR * fill, square, 0.0)
        told += [fill, (size == fill).sum().double(), rest.sum()]
    told.append(square.sum())
    found: list[float] = torch.stack(told).tolist()  # a GPU is waited for once
    norm = found.pop()
    for value, often, beside in zip(found[::3], found[1::3], found[2::3], strict=True):
        if value > 0.0 and often >= _OFTEN * count and beside < _BESIDE**2 * norm:
            return value
    return None


def without_fill(
    fill: float, native: torch.Tensor, others: Sequence[torch.Tensor], within: float = _AS_FAR
) -> list[torch.Tensor]:
    """``others``, but where ``native`` is the number, by how much they are another: zero, if that
    is ``within`` it, as a share."""
    is_fill = (native.abs() - fill).abs_() <= _AS_FAR * fill
    found = []
    for other in others:
        off = other - native
        off.masked_fill_(off.abs() <= within * fill, 0.0)
        found.append(torch.where(is_fill, off, other))
    return found
