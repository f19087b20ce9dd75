"""Invariants of a task's inputs, found from several draws: transformed inputs keep them.

That a matrix is triangular or symmetric, that edges are sorted, or a mask zero or one, is the
task's as much as a shape is, and kernels rely on it. What never holds by chance is made anew:
halves that are equal, rows of one length. Signs and sizes are no invariants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from gpu_sandbox.tensors.chunked import pieces
from gpu_sandbox.verifier.inputs.matrix_invariants import (
    FLAT,
    is_definite,
    is_rotation,
    is_symmetric,
    orthogonal_side,
    rotation_sizes,
)
from gpu_sandbox.verifier.inputs.row_invariants import (
    EqualSums,
    find_equal_sums,
    ordered_columns,
    repeat_offset,
    sort_order,
)
from gpu_sandbox.verifier.numerics.tolerances import tolerance_of

_DRAWS = 3
_LARGEST_BYTES = 1 << 30  # of larger inputs one draw is examined, piece by piece, to save memory
_BY_CHANCE = 1 / 64
"""Zeros among elements that are not always zero, at most, and ones: ``torch.rand`` gives a zero in
16 million, and in bfloat16 one in 256."""


class Invariants(NamedTuple):
    """Invariants of one input."""

    whole: bool = False  # several values, all of them whole numbers: such an input is not changed
    zeros: bool = False  # some are zero each time, and others by chance at most
    ones: bool = False
    symmetric: bool = False  # hermitian, if it is complex
    skew: bool = False
    definite: bool = False
    order: int = 0  # each row (the last dimension) rises (1) or falls (-1)
    columns: tuple[tuple[int, int], ...] = ()
    """Of a few columns, pairs of which the first never exceeds the second, as ends of a box."""
    rotation: int = 0
    """So many first rows and columns of each matrix are orthogonal and of one length, with zeros
    and a one in a row below: a rotation, or a pose."""
    flat: tuple[int, int] | None = None  # the shape of rotations that lie in a row each
    orthogonal: int = 0
    """columns (1) or rows (-1), the fewer ones, are orthogonal and of one length"""
    repeats: int = 0  # each row repeats itself so many elements on
    equal_sums: EqualSums | None = None


def find_invariants(draws: Sequence[torch.Tensor]) -> Invariants:
    """Examine several draws of the same input."""
    if not draws or any(not _is_changed(t) or t.numel() < 2 for t in draws):
        return Invariants()
    if any(map(_is_constant, draws)):
        return Invariants()  # nothing but a size
    if not draws[0].is_complex() and all(map(_is_whole, draws)):
        return Invariants(whole=True)
    symmetric, order = all(map(is_symmetric, draws)), sort_order(draws)
    zeros = _always(0.0, draws)
    rotation, flat = _rotation_and_shape(draws)
    orthogonal = 0 if rotation or zeros else _orthogonal(draws)
    made = symmetric or rotation or orthogonal
    return Invariants(
        zeros=zeros,
        ones=not rotation and _always(1.0, draws),
        symmetric=symmetric,
        skew=all(is_symmetric(t, -1) for t in draws),
        definite=symmetric and all(map(is_definite, draws)),
        order=order,
        columns=() if order or rotation else ordered_columns(draws),
        rotation=rotation,
        flat=flat,
        orthogonal=orthogonal,
        repeats=repeat_offset(draws),
        equal_sums=None if made else find_equal_sums(draws),
    )


def _rotation_and_shape(draws: Sequence[torch.Tensor]) -> tuple[int, tuple[int, int] | None]:
    if count := _rotation(draws):
        return count, None
    lengths = {t.shape[-1] if t.dim() else 0 for t in draws}
    shape = FLAT.get(lengths.pop()) if len(lengths) == 1 else None
    count = _rotation([t.reshape(*t.shape[:-1], *shape) for t in draws]) if shape else 0
    return count, shape if count else None


def _rotation(draws: Sequence[torch.Tensor]) -> int:
    return next((n for n in rotation_sizes(draws[0]) if all(is_rotation(t, n) for t in draws)), 0)


def _orthogonal(draws: Sequence[torch.Tensor]) -> int:
    side = orthogonal_side(draws[0])
    return side if side and all(orthogonal_side(t) == side for t in draws[1:]) else 0


def _find_in_one_draw(tensor: torch.Tensor) -> Invariants:
    """Examine one draw, in no more memory than a piece takes."""
    if not _is_changed(tensor) or tensor.numel() < 2 or _is_constant(tensor):
        return Invariants()
    nonzero = sum(int(torch.count_nonzero(piece)) for (piece,) in pieces(tensor))
    return Invariants(
        whole=not tensor.is_complex() and _is_whole(tensor),
        zeros=nonzero < (1 - _BY_CHANCE) * tensor.numel(),
        order=sort_order([tensor]),
    )


class InvariantsMemo:
    """Invariants of a task's distinct inputs, found when first asked for."""

    def __init__(self) -> None:
        self._found: list[Invariants] | None = None

    def of(
        self, tensors: Sequence[torch.Tensor], draw: Callable[[int], Sequence[torch.Tensor]]
    ) -> list[Invariants]:
        """``draw`` gives more inputs like these, by number."""
        if self._found is None:
            self._found = []
            if sum(t.nbytes for t in tensors) > _LARGEST_BYTES:
                self._found = [_find_in_one_draw(t) for t in distinct(tensors)]
                return self._found
            draws = [distinct(draw(n)) for n in range(_DRAWS)]
            if len({len(each) for each in draws}) == 1:
                self._found = [find_invariants(alike) for alike in zip(*draws, strict=True)]
        return self._found


def distinct(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """List each tensor object once, in order."""
    return list({id(t): t for t in tensors}.values())


def _is_changed(tensor: torch.Tensor) -> bool:
    return tolerance_of(tensor) is not None


def _is_whole(tensor: torch.Tensor) -> bool:
    return all(bool((piece == piece.round()).all()) for (piece,) in pieces(tensor))


def _is_constant(tensor: torch.Tensor) -> bool:
    first = tensor[(0,) * tensor.dim()]
    return all(bool((piece == first).all()) for (piece,) in pieces(tensor))


def _always(value: float, draws: Sequence[torch.Tensor]) -> bool:
    """Whether more elements are this value in all draws than by chance, of which each draw has a
    few of its own: where all have the same, one is enough."""
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
