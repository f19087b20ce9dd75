"""Tensors of any size row by row, and in pieces that fit: norms, distances, what is finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from gpu_sandbox.accelerator.lookup import accelerator_of

_PIECE = 1 << 26
"""Elements looked at in one go: half a gigabyte in float64."""
_PIECE_ON_CPU = 1 << 18
"""What is larger than its caches takes three times as long, in page faults. And it adds up squares
one by one: in float32 a norm of many millions comes out half of what it is."""


def distance(got: torch.Tensor, truth: torch.Tensor, least: float = 0.0) -> tuple[float, float]:
    """Relative L2 distance and largest absolute one, of what is finite; in float64. ``least``:
    what it is relative to at least."""
    off = norm = worst = 0.0
    for piece_got, piece_truth in pieces(as_real(got), as_real(truth)):
        wide = piece_truth.double()
        error = (piece_got.double() - wide).nan_to_num(0.0, 0.0, 0.0)
        off += float(error.square().sum())
        norm += float(wide.nan_to_num(0.0, 0.0, 0.0).square().sum())
        worst = max(worst, float(error.abs().max()))
    if off == 0.0:
        return 0.0, worst  # of what is so small that its square is nothing
    norm = max(norm, least * least)
    return (math.sqrt(off / norm) if norm > 0 else math.inf), worst


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """A complex one as its parts, side by side in a last dimension of two."""
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor.detach().resolve_conj().resolve_neg())


def pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same rows of each, few enough that float64 copies of them fit anywhere. None of none."""
    if not tensors[0].numel():
        return
    last = row_length(tensors[0])
    flat = [t.detach().reshape(-1, last) for t in tensors]
    rows = max(1, at_a_time(tensors[0]) // last)
    for start in range(0, flat[0].shape[0], rows):
        yield tuple(t[start : start + rows] for t in flat)


def at_a_time(tensor: torch.Tensor) -> int:
    """How many of its elements are looked at in one go."""
    return _PIECE_ON_CPU if accelerator_of(tensor.device).on_host else _PIECE


def row_length(tensor: torch.Tensor) -> int:
    """How many elements of it, which has some, are compared as one row: its last dimension, or a
    part of one that is too long."""
    last = tensor.shape[-1] if tensor.dim() else 1
    if last <= _PIECE:
        return last
    return _PIECE if tensor.numel() % _PIECE == 0 else tensor.numel()


def some_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Of all of its rows, one after the other, 65,536 or fewer, that fit anywhere."""
    rows = tensor.reshape(-1, row_length(tensor))
    return rows[:: max(1, rows.shape[0] >> 16, tensor.numel() // _PIECE)]


def indices_of(places: torch.Tensor, shape: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Of places in row-major order, the index in each dimension. ``torch.unravel_index`` imports
    sympy when it is first called: two seconds, in the middle of what is timed."""
    found = []
    for size in reversed(shape):
        found.append(places % size)
        places = places // size
    return tuple(reversed(found))


def finite(tensor: torch.Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    parts = (piece.reshape(1, -1) for (piece,) in pieces(as_real(tensor)))
    return all(math.isfinite(float(largest_of(part))) for part in parts)


def largest_of(rows: torch.Tensor) -> torch.Tensor:
    """Of each in absolute value, and NaN if there is one: (rows,). In one pass, where ``isfinite``
    takes four; on the CPU a norm takes as long as that, and two passes a tenth."""
    if accelerator_of(rows.device).on_host:
        return torch.maximum(rows.amax(1), -rows.amin(1))
    found: torch.Tensor = torch.linalg.vector_norm(rows, math.inf, 1)
    return found


def smallest_at(values: torch.Tensor, places: Sequence[int]) -> list[torch.Tensor]:
    """What would stand at these places if they were in order. A GPU sorts them in less time than it
    takes to select, and a CPU selects two in a third of the time that it takes to sort."""
    if accelerator_of(values.device).on_host:
        return [values.kthvalue(place + 1).values for place in places]
    in_order = values.sort().values
    return [in_order[place] for place in places]


def row_rms(tensor: torch.Tensor) -> torch.Tensor:
    """Of each row (the last dimension), which is kept with length one, in float64."""
    return tensor.double().nan_to_num(0.0, 0.0, 0.0).square().mean(dim=-1, keepdim=True).sqrt()
