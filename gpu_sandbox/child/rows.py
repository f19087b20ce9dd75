"""Rows that are in order, are twice the same, or of length or sum one: seen, and changed ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from gpu_sandbox.child.matrices import FACTORED
from gpu_sandbox.child.pieces import pieces

__all__ = ["Unit", "columns", "order", "put_in_order", "still_twice", "still_unit", "twice", "unit"]

Unit: TypeAlias = tuple[int, int]
"""A dimension, and 2 where squares along it add up to one, 1 where numbers do, none of which is
negative. Of complex numbers of modulus one the dimension is the one that their parts would be."""
_FEWEST = 3
"""Elements in a row that are sorted by no chance, if all rows are."""
_COLUMNS, _ROWS = 8, 64
"""So many at most, and so many rows at least: that one is below the other in each is no chance."""
_EPS = 32
"""So much may a sum of one be off: long ones are, and squares of what has been divided."""
_SPREAD = 2.0
_FLIPPED = 0.25


def order(draws: Sequence[torch.Tensor]) -> int:
    """1 if all rows rise, -1 if they fall."""
    if any(t.is_complex() or t.dim() == 0 or t.shape[-1] < _FEWEST for t in draws):
        return 0
    return next((sign for sign in (1, -1) if all(_rises(t, sign) for t in draws)), 0)


def _rises(tensor: torch.Tensor, sign: int) -> bool:
    return all(
        bool((sign * (piece[:, 1:] - piece[:, :-1]) >= 0).all()) for (piece,) in pieces(tensor)
    )


def columns(draws: Sequence[torch.Tensor]) -> tuple[tuple[int, int], ...]:
    """Those of which the first is nowhere beyond the second. One of ones has no part in that: in
    homogeneous coordinates it says nothing of the others."""
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


def put_in_order(tensor: torch.Tensor, columns: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Whose later ones are not below the earlier ones: in as many rounds as that takes at most."""
    columns_of = list(tensor.unbind(-1))
    for _ in columns_of:
        for low, high in columns:
            a, b = columns_of[low], columns_of[high]
            columns_of[low], columns_of[high] = torch.minimum(a, b), torch.maximum(a, b)
    return torch.stack(columns_of, dim=-1)


def twice(draws: Sequence[torch.Tensor]) -> int:
    """How far off in a row the same comes again: half of it, as in angles of rotary embeddings, or
    one, where it comes in pairs; 0 if it does not."""
    if any(t.dim() == 0 or t.shape[-1] % 2 or t.shape != draws[0].shape for t in draws):
        return 0
    ways: dict[int, Callable[[torch.Tensor], Sequence[torch.Tensor]]] = {
        draws[0].shape[-1] // 2: lambda t: t.chunk(2, dim=-1),
        1: lambda t: (t[..., ::2], t[..., 1::2]),
    }
    return next((by for by, way in ways.items() if all(torch.equal(*way(t)) for t in draws)), 0)


def still_twice(changed: torch.Tensor, by: int) -> torch.Tensor:
    half = changed[..., ::2] if by == 1 else changed[..., :by]
    return half.repeat_interleave(2, dim=-1) if by == 1 else torch.cat([half, half], dim=-1)


def unit(draws: Sequence[torch.Tensor]) -> Unit | None:
    first = draws[0]
    if first.dtype not in FACTORED or any(t.dim() != first.dim() for t in draws):
        return None
    if first.is_complex():
        return (first.dim(), 2) if all(_is_one(t.abs()) for t in draws) else None
    for dimension in reversed(range(first.dim())):
        for power in (2, 1):
            if all(_adds_up(t, dimension, power) for t in draws):
                return dimension, power
    return None


def _adds_up(tensor: torch.Tensor, dimension: int, power: int) -> bool:
    if tensor.shape[dimension] < 2 or tensor.numel() == 0:
        return False
    turned = tensor.movedim(dimension, -1)
    one = turned[(0,) * (tensor.dim() - 1)]  # which tells of most
    return _sums_to_one(one, power) and _sums_to_one(turned, power)


def _sums_to_one(tensor: torch.Tensor, power: int) -> bool:
    if power == 1 and bool((tensor < 0).any()):
        return False
    return _is_one(tensor.pow(power).sum(-1))


def _is_one(tensor: torch.Tensor) -> bool:
    return float((tensor - 1.0).abs().max()) <= _EPS * torch.finfo(tensor.dtype).eps


def still_unit(unit: Unit, tensor: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    """With each row of which something is changed another one: what is zero stays so."""
    dimension, power = unit
    if tensor.is_complex():
        angles = 6.2831853 * torch.rand_like(tensor.real)
        turned = tensor * torch.polar(torch.ones_like(angles), angles)
        return torch.where(changed != tensor, turned / turned.abs(), tensor)
    other = tensor * torch.exp(_SPREAD * torch.randn_like(tensor))
    if power == 2:
        other = torch.where(torch.rand_like(tensor) < _FLIPPED, -other, other)
    other = other / torch.linalg.vector_norm(other, ord=power, dim=dimension, keepdim=True)
    mine = (changed != tensor).any(dimension, keepdim=True)
    return torch.where(mine, other, tensor)
