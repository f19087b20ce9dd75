"""The one number that an output is in many places, and beside which all else is next to nothing.

Scores that are masked by -1e9: norms, those of rows, and the size of what counts among most
elements go by the mask, and no score need be there. So it is to be where it belongs, and what is
looked at by norms is the rest, as it is beside infinities.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpu_sandbox.tensors.chunked import pieces
from gpu_sandbox.tensors.random_indices import some_of

__all__ = ["fill_of", "filled_alike", "without_fill"]

_FEWEST = 256
"""Elements of an output that is looked at."""
_LOOKED_AT = 1 << 13
_THRICE = 3
"""What is as large as that is no accident."""
_OTHERS = 256
"""That are not zero, at least: of fewer no norm says much."""
_FROM_THE_TOP = (0, 1 / 128, 1 / 16, 1 / 4)
"""Where it is among sizes in order, but for the largest. What is larger has so little of the norm
that it is a fifteenth as often: so of a number that is a 64th of all, the second is one, if it is a
ninth of all or more, maybe the third only; of nine in ten the fourth."""
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
        fill = size[count - 2 - int(share * count)]
        far = (size - fill).abs() > _AS_FAR * fill
        others = (far & (size > 0.0)).sum()
        told += [fill, (size == fill).sum(), others, torch.where(far, square, 0.0).sum()]
    told.append(square.sum())
    found: list[float] = torch.stack([t.double() for t in told]).tolist()  # a GPU waits once
    norm, fewest = found.pop(), _OTHERS * count / output.numel()
    for place in range(len(_FROM_THE_TOP)):
        value, often, others_are, beside = found[4 * place : 4 * place + 4]
        if often >= _THRICE and others_are >= fewest and beside < _BESIDE**2 * norm:
            return value
    return None


def filled_alike(fill: float, native: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """``exact`` with what ``native`` is filled with, where it is filled with another number in the
    same places: the least that there is in float64, say."""
    other = fill_of(exact)
    if other is None or abs(other - fill) <= _AS_FAR * fill:
        return exact
    alike = exact.new_empty(exact.shape)
    for mine, theirs, into in pieces(native, exact, alike):
        there = (theirs.abs() - other).abs_() <= _AS_FAR * other
        here = (mine.abs() - fill).abs_() <= _AS_FAR * fill
        into.copy_(torch.where(there.logical_and_(here), mine.to(exact.dtype), theirs))
    return alike


def without_fill(
    fill: float, native: torch.Tensor, others: Sequence[torch.Tensor], within: float = _AS_FAR
) -> list[torch.Tensor]:
    """``others``, but where ``native`` is the number, by how much they are another: zero, if that
    is ``within`` it, as a share."""
    found = [native.new_empty(native.shape, dtype=_wider(native, other)) for other in others]
    for mine, *rest in pieces(native, *others, *found):
        is_fill = (mine.abs() - fill).abs_() <= _AS_FAR * fill
        for other, into in zip(rest[: len(others)], rest[len(others) :], strict=True):
            off = other - mine
            off.masked_fill_(off.abs() <= within * fill, 0.0)
            into.copy_(torch.where(is_fill, off, other))
    return found


def _wider(one: torch.Tensor, other: torch.Tensor) -> torch.dtype:
    return torch.promote_types(one.dtype, other.dtype)
