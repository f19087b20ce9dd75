"""Invariants of rows, found and kept: sorted, repeating, or of one length or sum."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from gpu_sandbox.tensors.chunked import pieces
from gpu_sandbox.verifier.inputs.matrix_invariants import FACTORED

EqualSums: TypeAlias = tuple[int, int]
"""A dimension, and what has the same sum in all rows along it: 2 squares, 1 numbers, none of which
is negative, 0 exponentials, to one. Complex numbers of one modulus have the dimension of their
parts."""
_MIN_LENGTH = 3  # elements of a row: if all rows are sorted, that is no chance
_COLUMNS, _ROWS = 8, 64  # at most, and at least: an order of columns in each is no chance
_EPS = 32  # ulp that sums may differ by: long ones do, and squares of quotients
_SPREAD = 2.0
_FLIPPED = 0.25


def sort_order(draws: Sequence[torch.Tensor]) -> int:
    """Return 1 if all rows rise, -1 if they fall, else 0."""
    if any(t.is_complex() or t.dim() == 0 or t.shape[-1] < _MIN_LENGTH for t in draws):
        return 0
    return next((sign for sign in (1, -1) if all(_rises(t, sign) for t in draws)), 0)


def _rises(tensor: torch.Tensor, sign: int) -> bool:
    return all(
        bool((sign * (piece[:, 1:] - piece[:, :-1]) >= 0).all()) for (piece,) in pieces(tensor)
    )


def ordered_columns(draws: Sequence[torch.Tensor]) -> tuple[tuple[int, int], ...]:
    """Pairs of columns of which the first nowhere exceeds the second, without a column of ones, as
    in homogeneous coordinates."""
    first = draws[0]
    if first.is_complex() or first.dim() < 2 or not 2 <= first.shape[-1] <= _COLUMNS:
        return ()
    if any(t.shape != first.shape for t in draws) or first.numel() < _ROWS * first.shape[-1]:
        return ()
    free = [n for n in range(first.shape[-1]) if not all((t[..., n] == 1).all() for t in draws)]
    found = list(itertools.permutations(free, 2))
    for rows in (first.flatten(0, -2)[:_ROWS], *(t.flatten(0, -2) for t in draws)):
        found = [(a, b) for a, b in found if bool((rows[:, a] <= rows[:, b]).all())]
    return tuple((a, b) for a, b in found if (b, a) not in found)


def with_ordered_columns(tensor: torch.Tensor, columns: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Exchange values until no first one exceeds the second."""
    columns_of = list(tensor.unbind(-1))
    for _ in columns_of:
        for low, high in columns:
            a, b = columns_of[low], columns_of[high]
            columns_of[low], columns_of[high] = torch.minimum(a, b), torch.maximum(a, b)
    return torch.stack(columns_of, dim=-1)


def repeat_offset(draws: Sequence[torch.Tensor]) -> int:
    """After how many elements each row repeats itself: half of it, as angles of rotary embeddings
    do, or one, where it comes in pairs; 0 if it does not."""
    if any(t.dim() == 0 or t.shape[-1] % 2 or t.shape != draws[0].shape for t in draws):
        return 0
    halves: dict[int, Callable[[torch.Tensor], Sequence[torch.Tensor]]] = {
        draws[0].shape[-1] // 2: lambda t: t.chunk(2, dim=-1),
        1: lambda t: (t[..., ::2], t[..., 1::2]),
    }
    return next((by for by, way in halves.items() if all(torch.equal(*way(t)) for t in draws)), 0)


def with_repeats(changed: torch.Tensor, by: int) -> torch.Tensor:
    half = changed[..., ::2] if by == 1 else changed[..., :by]
    return half.repeat_interleave(2, dim=-1) if by == 1 else torch.cat([half, half], dim=-1)


def find_equal_sums(draws: Sequence[torch.Tensor]) -> EqualSums | None:
    first = draws[0]
    if first.dtype not in FACTORED or any(t.dim() != first.dim() for t in draws):
        return None
    if first.is_complex():
        return (first.dim(), 2) if _are_equal([t.abs() for t in draws]) else None
    for dimension in reversed(range(first.dim())):
        for power in (2, 1, 0):
            if _add_up(draws, dimension, power):
                return dimension, power
    return None


def _add_up(draws: Sequence[torch.Tensor], dimension: int, power: int) -> bool:
    if any(t.shape[dimension] < 2 or t.numel() == 0 for t in draws):
        return False
    turned = [t.movedim(dimension, -1) for t in draws]
    some = [t[(0,) * (t.dim() - 1)] for t in turned]  # to exclude most inputs
    return _same_sums(some, power) and _same_sums(turned, power)


def _same_sums(draws: Sequence[torch.Tensor], power: int) -> bool:
    if power == 0:
        return _are_equal([torch.zeros(1), *(t.logsumexp(-1) for t in draws)], least=1.0)
    if power == 1 and any(bool((t < 0).any()) for t in draws):
        return False
    return _are_equal([t.pow(power).sum(-1) for t in draws])


def _are_equal(draws: Sequence[torch.Tensor], least: float = 0.0) -> bool:
    """Whether all are equal, and not zero, but for rounding of numbers of size ``least``."""
    low, high = min(float(t.min()) for t in draws), max(float(t.max()) for t in draws)
    size = max(abs(low), abs(high), least)
    return 0.0 < size < math.inf and high - low <= _EPS * torch.finfo(draws[-1].dtype).eps * size


def another_with_equal_sums(
    equal_sums: EqualSums, tensor: torch.Tensor, changed: torch.Tensor
) -> torch.Tensor:
    """Replace each row of which something is changed by another with the same sum. Zeros stay, and
    logarithms of zero."""
    dimension, power = equal_sums
    if tensor.is_complex():
        angles = 2.0 * math.pi * torch.rand_like(tensor.real)
        turned = tensor * torch.polar(torch.ones_like(angles), angles)
        return torch.where(changed != tensor, turned, tensor)
    mine = (changed != tensor).any(dimension, keepdim=True)
    by = _SPREAD * torch.randn_like(tensor)
    if power == 0:
        return torch.where(mine, (tensor + by).log_softmax(dimension), tensor)
    other = tensor * torch.exp(by)
    if power == 2:
        other = torch.where(torch.rand_like(tensor) < _FLIPPED, -other, other)
    before, after = (
        torch.linalg.vector_norm(t, ord=power, dim=dimension, keepdim=True) for t in (tensor, other)
    )
    return torch.where(mine, other * (before / after), tensor)
