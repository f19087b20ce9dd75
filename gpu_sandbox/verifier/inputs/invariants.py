"""What the inputs of a task have in common, whatever is drawn: changed ones have it, too
(``apply.py``).

That a matrix is triangular, or symmetric, that edges are sorted, that a mask is zero or one, or
that a tensor lies transposed, is the task's as much as a shape is, and kernels go by it. What
holds for no two numbers that are drawn is made: halves that are equal, rows of one length. Signs
and sizes are not: a kernel that leaves out a rectifier, since the task draws no negative numbers,
is to be found out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from gpu_sandbox.tensors.chunked import pieces
from gpu_sandbox.verifier.inputs.matrix_invariants import (
    FLAT,
    frame,
    is_definite,
    is_symmetric,
    sizes,
    turns,
)
from gpu_sandbox.verifier.inputs.row_invariants import Even, columns, even, order, twice
from gpu_sandbox.verifier.numerics.tolerances import RULES

__all__ = ["Form", "Forms", "form_of", "once"]

_DRAWS = 3
_LARGEST_BYTES = 1 << 30
"""Of inputs that are larger one draw is looked at, piece by piece: more would take as much more
memory."""
_BY_CHANCE = 1 / 64
"""Zeros among elements that are not always zero, at most, and ones: ``torch.rand`` gives a zero in
16 million, and in bfloat16 one in 256."""


class Form(NamedTuple):
    """Of one input. ``whole``: several values, all of them whole numbers. ``zeros``: some are zero
    each time, and others by chance at most. ``ones``: so are some one. ``symmetric``: Hermitian, if
    it is complex. ``skew``: that with the other sign. ``definite``: a symmetric one is positive
    definite. ``order``: each row (the last dimension) rises (1) or falls (-1). ``columns``: of a
    few, those of which one is never beyond the other: a box ends after it begins. ``turns``: so
    many of the first rows and columns of each matrix are orthogonal and of one length, and below
    them, if there is a row, are zeros and a one: a rotation, or a pose. ``flat``: of these shapes,
    but each lies in a row. ``frame``: columns (1) or rows (-1) are orthogonal and of one length, of
    which there are fewer than of the others. ``twice``: in each row the same comes again, so many
    elements on. ``even``: rows, or numbers, are of one length or sum."""

    whole: bool = False
    zeros: bool = False
    ones: bool = False
    symmetric: bool = False
    skew: bool = False
    definite: bool = False
    order: int = 0
    columns: tuple[tuple[int, int], ...] = ()
    turns: int = 0
    flat: tuple[int, int] | None = None
    frame: int = 0
    twice: int = 0
    even: Even | None = None


def form_of(draws: Sequence[torch.Tensor]) -> Form:
    """Of several draws of the same input."""
    if not draws or any(not _is_changed(t) or t.numel() < 2 for t in draws):
        return Form()
    if any(map(_is_constant, draws)):
        return Form()  # nothing but a size
    if not draws[0].is_complex() and all(map(_is_whole, draws)):
        return Form(whole=True)  # it stays as it is
    symmetric, sorted_ = all(map(is_symmetric, draws)), order(draws)
    zeros = _always(0.0, draws)
    turning, flat = _turns(draws)
    framed = 0 if turning or zeros else _frame(draws)
    return Form(
        zeros=zeros,
        ones=not turning and _always(1.0, draws),
        symmetric=symmetric,
        skew=all(is_symmetric(t, -1) for t in draws),
        definite=symmetric and all(map(is_definite, draws)),
        order=sorted_,
        columns=() if sorted_ or turning else columns(draws),
        turns=turning,
        flat=flat,
        frame=framed,
        twice=twice(draws),
        even=None if symmetric or turning or framed else even(draws),
    )


def _turns(draws: Sequence[torch.Tensor]) -> tuple[int, tuple[int, int] | None]:
    """``Form.turns`` and ``Form.flat``."""
    if count := _rotation(draws):
        return count, None
    lengths = {t.shape[-1] if t.dim() else 0 for t in draws}
    shape = FLAT.get(lengths.pop()) if len(lengths) == 1 else None
    count = _rotation([t.reshape(*t.shape[:-1], *shape) for t in draws]) if shape else 0
    return count, shape if count else None


def _frame(draws: Sequence[torch.Tensor]) -> int:
    """``Form.frame``."""
    side = frame(draws[0])
    return side if side and all(frame(t) == side for t in draws[1:]) else 0


def _rotation(draws: Sequence[torch.Tensor]) -> int:
    """Its size."""
    return next((n for n in sizes(draws[0]) if all(turns(t, n) for t in draws)), 0)


def _form_of_one(tensor: torch.Tensor) -> Form:
    """What one draw tells by itself, in no more memory than a piece takes."""
    if not _is_changed(tensor) or tensor.numel() < 2 or _is_constant(tensor):
        return Form()
    return Form(
        whole=not tensor.is_complex() and _is_whole(tensor),
        zeros=_count_nonzero(tensor) < (1 - _BY_CHANCE) * tensor.numel(),
        order=order([tensor]),
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


def _always(value: float, draws: Sequence[torch.Tensor]) -> bool:
    """More are this in all draws than by chance, of which each has a few of its own: where all have
    the same, one is enough."""
    first = draws[0]
    if len(draws) < 2 or any(t.shape != first.shape for t in draws):
        return False
    always = first == value
    for tensor in draws[1:]:
        always &= tensor == value
    count, same = first.numel(), int(always.sum())
    most = max(count - int((t != value).sum()) - same for t in draws) / max(count - same, 1)
    by_chance = count * most ** len(draws) + 1 if most else 0.0
    return most <= _BY_CHANCE and same > 8 * by_chance
