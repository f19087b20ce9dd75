"""What the inputs of a task have in common, whatever is drawn: changed ones have it, too
(``changed.py``).

That a matrix is triangular, or symmetric, that edges are sorted, that a mask is zero or one, or
that a tensor lies transposed, is the task's as much as a shape is, and kernels go by it. Signs,
sizes and sums are not: a kernel that leaves out a rectifier, since the task draws no negative
numbers, is to be found out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from gpu_sandbox.child.pieces import pieces
from gpu_sandbox.child.rules import RULES

__all__ = ["Form", "Forms", "form_of", "once"]

_DRAWS = 3
_LARGEST_BYTES = 1 << 30
"""Of inputs that are larger one draw is looked at, piece by piece: more would take as much more
memory."""
_BY_CHANCE = 1 / 64
"""Zeros among elements that are not always zero, at most: ``torch.rand`` gives one in 16 million,
and in bfloat16 one in 256."""
_FACTORED = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_FEWEST = 3
"""Elements in a row that are sorted by no chance, if all rows are."""
_COLUMNS, _ROWS = 8, 64
"""So many at most, and so many rows at least: that one is below the other in each is no chance."""
_TURNS = 64
"""Rows of what may be a rotation, at most."""


class Form(NamedTuple):
    """Of one input. ``whole``: several values, all of them whole numbers. ``zeros``: some are zero
    each time, and others by chance at most. ``symmetric``: Hermitian, if it is complex.
    ``definite``: a symmetric one is positive definite. ``order``: each row (the last dimension)
    rises (1) or falls (-1). ``columns``: of a few, those of which one is never beyond the other: a
    box ends after it begins. ``turns``: so many of the first rows and columns of each matrix are
    orthonormal, and below them, if there is a row, are zeros and a one: a rotation, or a pose."""

    whole: bool = False
    zeros: bool = False
    symmetric: bool = False
    definite: bool = False
    order: int = 0
    columns: tuple[tuple[int, int], ...] = ()
    turns: int = 0


def form_of(draws: Sequence[torch.Tensor]) -> Form:
    """Of several draws of the same input."""
    if not draws or any(not _is_changed(t) or t.numel() < 2 for t in draws):
        return Form()
    if any(map(_is_constant, draws)):
        return Form()  # nothing but a size
    symmetric, order = all(map(_is_symmetric, draws)), _order(draws)
    turns = next((n for n in _sizes(draws[0]) if all(_turns(t, n) for t in draws)), 0)
    return Form(
        whole=not draws[0].is_complex() and all(map(_is_whole, draws)),
        zeros=_same_zeros(draws),
        symmetric=symmetric,
        definite=symmetric and all(map(_is_definite, draws)),
        order=order,
        columns=() if order or turns else _columns(draws),
        turns=turns,
    )


def _form_of_one(tensor: torch.Tensor) -> Form:
    """What one draw tells by itself, in no more memory than a piece takes."""
    if not _is_changed(tensor) or tensor.numel() < 2 or _is_constant(tensor):
        return Form()
    return Form(
        whole=not tensor.is_complex() and _is_whole(tensor),
        zeros=_count_nonzero(tensor) < (1 - _BY_CHANCE) * tensor.numel(),
        order=_order([tensor]),
    )


class Forms:
    """Of all inputs of a task, each that is there twice once; found out when first asked for."""

    def __init__(self) -> None:
        self._known: list[Form] | None = None

    def of(
        self, tensors: Sequence[torch.Tensor], draw: Callable[[int], Sequence[torch.Tensor]]
    ) -> list[Form]:
        """``draw`` gives more inputs like these, by number."""
        if self._known is None:
            self._known = []
            if sum(t.nbytes for t in tensors) > _LARGEST_BYTES:
                self._known = [_form_of_one(t) for t in once(tensors)]
                return self._known
            draws = [once(draw(n)) for n in range(_DRAWS)]
            if len({len(each) for each in draws}) == 1:
                self._known = [form_of(alike) for alike in zip(*draws, strict=True)]
        return self._known


def once(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Each that is there twice once, in order."""
    return list({id(t): t for t in tensors}.values())


def _is_changed(tensor: torch.Tensor) -> bool:
    return tensor.dtype in RULES or tensor.is_complex()


def _is_whole(tensor: torch.Tensor) -> bool:
    return all(bool((piece == piece.round()).all()) for (piece,) in pieces(tensor))


def _is_constant(tensor: torch.Tensor) -> bool:
    first = tensor[(0,) * tensor.dim()]
    return all(bool((piece == first).all()) for (piece,) in pieces(tensor))


def _count_nonzero(tensor: torch.Tensor) -> int:
    return sum(int(torch.count_nonzero(piece)) for (piece,) in pieces(tensor))


def _same_zeros(draws: Sequence[torch.Tensor]) -> bool:
    """More are zero in all draws than by chance, of which each has a few of its own: where all have
    the same, one is enough."""
    first = draws[0]
    if len(draws) < 2 or any(t.shape != first.shape for t in draws):
        return False
    always = first == 0
    for tensor in draws[1:]:
        always &= tensor == 0
    count, same = first.numel(), int(always.sum())
    most = max(count - int(torch.count_nonzero(t)) - same for t in draws) / max(count - same, 1)
    by_chance = count * most ** len(draws) + 1 if most else 0.0
    return most <= _BY_CHANCE and same > 8 * by_chance


def _is_symmetric(tensor: torch.Tensor) -> bool:
    """But for rounding: ``torch.cdist`` is not as far from a to b as from b to a."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2]:
        return False
    if torch.equal(tensor, tensor.mH):
        return True
    if tensor.dtype not in _FACTORED:
        return False
    most = math.sqrt(torch.finfo(tensor.dtype).eps) * float(tensor.abs().max())
    return float((tensor - tensor.mH).abs().max()) <= most


def _is_definite(tensor: torch.Tensor) -> bool:
    if tensor.dtype not in _FACTORED:
        return False
    return bool((torch.linalg.cholesky_ex(tensor).info == 0).all())


def _sizes(tensor: torch.Tensor) -> list[int]:
    """Of the rotation that its matrices may hold."""
    if tensor.dim() < 2 or tensor.dtype not in _FACTORED:
        return []
    rows, columns = tensor.shape[-2:]
    sizes = {rows: (rows, rows - 1), rows + 1: (rows,)}.get(columns, ())
    return [n for n in sizes if 2 <= n <= _TURNS]


def _turns(tensor: torch.Tensor, count: int) -> bool:
    rows, columns = tensor.shape[-2:]
    if rows < count or columns < count:
        return False
    last = torch.eye(columns, dtype=tensor.dtype, device=tensor.device)[-1]
    if rows > count and not bool((tensor[..., count:, :] == last).all()):
        return False
    block = tensor[..., :count, :count]
    off = block @ block.mH - torch.eye(count, dtype=tensor.dtype, device=tensor.device)
    return float(off.abs().max()) <= math.sqrt(torch.finfo(tensor.dtype).eps)


def _order(draws: Sequence[torch.Tensor]) -> int:
    if any(t.is_complex() or t.dim() == 0 or t.shape[-1] < _FEWEST for t in draws):
        return 0
    return next((sign for sign in (1, -1) if all(_rises(t, sign) for t in draws)), 0)


def _columns(draws: Sequence[torch.Tensor]) -> tuple[tuple[int, int], ...]:
    first = draws[0]
    if first.is_complex() or first.dim() < 2 or not 2 <= first.shape[-1] <= _COLUMNS:
        return ()
    if any(t.shape != first.shape for t in draws) or first.numel() < _ROWS * first.shape[-1]:
        return ()
    found = list(itertools.permutations(range(first.shape[-1]), 2))
    for rows in (first.flatten(0, -2)[:_ROWS], *(t.flatten(0, -2) for t in draws)):
        found = [(a, b) for a, b in found if bool((rows[:, a] <= rows[:, b]).all())]
    return tuple((a, b) for a, b in found if (b, a) not in found)


def _rises(tensor: torch.Tensor, sign: int) -> bool:
    return all(
        bool((sign * (piece[:, 1:] - piece[:, :-1]) >= 0).all()) for (piece,) in pieces(tensor)
    )
