"""Fill values: one huge number, as -1e9 in masked scores, beside which all norms say nothing.

A candidate's fill has to be in the same places; rules hold for the rest, where it counts as zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpu_sandbox.tensors.chunked import pieces
from gpu_sandbox.tensors.random_indices import some_of

_MIN_ELEMENTS = 256
_SAMPLE = 1 << 13
_MIN_FILLED = 3  # elements: what is as large as that is no accident
_MIN_OTHERS = 256  # elements that are not zero: of fewer no norm says much
_FROM_THE_TOP = (0, 1 / 128, 1 / 16, 1 / 4)
"""Where the fill is among sizes in order, but for the largest. Larger numbers have so little of the
norm that they are a fifteenth as often: so of a fill that is a 64th of all, the second is one, if
it is a ninth of all or more, maybe the third only; of nine in ten the fourth."""
_NEAR = 1 / 64  # of the number: what was added to it in half precision has made two or three of one
_MAX_REST = 1 / 4  # of the norm of all: what is not filled has less


def fill_value_of(output: torch.Tensor) -> float | None:
    """Find the fill's absolute value. None if there is none."""
    if not output.is_floating_point() or output.numel() < _MIN_ELEMENTS:
        return None
    flat = output.detach().reshape(-1)
    if flat.numel() > 2 * _SAMPLE:
        flat = flat[some_of(flat.numel(), _SAMPLE, flat.device)]
    size = flat.abs().nan_to_num_(0.0, 0.0, 0.0).double().sort().values
    count = size.numel()
    square = size.square()
    figures: list[torch.Tensor] = []
    for share in _FROM_THE_TOP:
        fill = size[count - 2 - int(share * count)]
        far = (size - fill).abs() > _NEAR * fill
        others = (far & (size > 0.0)).sum()
        figures += [fill, (size == fill).sum(), others, torch.where(far, square, 0.0).sum()]
    figures.append(square.sum())
    found: list[float] = torch.stack([t.double() for t in figures]).tolist()  # a GPU waits once
    norm, min_others = found.pop(), _MIN_OTHERS * count / output.numel()
    for place in range(len(_FROM_THE_TOP)):
        value, filled, other_count, rest = found[4 * place : 4 * place + 4]
        is_dominant = rest < _MAX_REST**2 * norm
        if filled >= _MIN_FILLED and other_count >= min_others and is_dominant:
            return value
    return None


def with_fill_of(fill: float, native: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Replace ``exact``'s fill, if it has another in the same places: the least number that there
    is in float64, say."""
    other = fill_value_of(exact)
    if other is None or abs(other - fill) <= _NEAR * fill:
        return exact
    found = exact.new_empty(exact.shape)
    for mine, theirs, into in pieces(native, exact, found):
        there = (theirs.abs() - other).abs_() <= _NEAR * other
        here = (mine.abs() - fill).abs_() <= _NEAR * fill
        into.copy_(torch.where(there.logical_and_(here), mine.to(exact.dtype), theirs))
    return found


def without_fill(
    fill: float, native: torch.Tensor, others: Sequence[torch.Tensor], within: float = _NEAR
) -> list[torch.Tensor]:
    """Replace ``others``, where ``native`` is filled, by their difference from the fill: zero, if
    that is ``within`` it, as a share."""
    dtypes = [torch.promote_types(native.dtype, other.dtype) for other in others]
    found = [native.new_empty(native.shape, dtype=dtype) for dtype in dtypes]
    for mine, *rest in pieces(native, *others, *found):
        is_fill = (mine.abs() - fill).abs_() <= _NEAR * fill
        for other, into in zip(rest[: len(others)], rest[len(others) :], strict=True):
            off = other - mine
            off.masked_fill_(off.abs() <= within * fill, 0.0)
            into.copy_(torch.where(is_fill, off, other))
    return found
