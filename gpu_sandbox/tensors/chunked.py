"""Computations on tensors of any size, by rows and by pieces: norms, distances, finiteness."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from gpu_sandbox.accelerator.lookup import accelerator_of

_PIECE = 1 << 26  # elements at a time: half a gigabyte in float64
_PIECE_ON_CPU = 1 << 18
"""Beyond its caches page faults triple the time; and it adds squares one by one, so that a float32
norm of many millions comes out as half."""


def distance(got: torch.Tensor, truth: torch.Tensor, least: float = 0.0) -> tuple[float, float]:
    """Relative L2 distance and largest absolute one of finite elements, in float64. ``least``: the
    least norm that the first is relative to."""
    off = norm = worst = 0.0
    for piece_got, piece_truth in pieces(as_real(got), as_real(truth)):
        wide = piece_truth.double()
        error = (piece_got.double() - wide).nan_to_num(0.0, 0.0, 0.0)
        off += float(error.square().sum())
        norm += float(wide.nan_to_num(0.0, 0.0, 0.0).square().sum())
        worst = max(worst, float(error.abs().max()))
    if off == 0.0:
        return 0.0, worst  # squares of tiny values underflow
    norm = max(norm, least * least)
    return (math.sqrt(off / norm) if norm > 0 else math.inf), worst


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor with its parts in a last dimension of two."""
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor.detach().resolve_conj().resolve_neg())


def pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same rows of each, few enough that float64 copies fit anywhere."""
    if not tensors[0].numel():
        return
    last = row_length(tensors[0])
    flat = [t.detach().reshape(-1, last) for t in tensors]
    rows = max(1, at_a_time(tensors[0]) // last)
    for start in range(0, flat[0].shape[0], rows):
        yield tuple(t[start : start + rows] for t in flat)


def at_a_time(tensor: torch.Tensor) -> int:
    """Elements of a piece."""
    return _PIECE_ON_CPU if accelerator_of(tensor.device).on_host else _PIECE


def row_length(tensor: torch.Tensor) -> int:
    """Elements that are compared as one row: the last dimension, or a part of a long one."""
    last = tensor.shape[-1] if tensor.dim() else 1
    if last <= _PIECE:
        return last
    return _PIECE if tensor.numel() % _PIECE == 0 else tensor.numel()


def some_rows(tensor: torch.Tensor) -> torch.Tensor:
    """At most about 65,536 evenly spaced rows, that fit anywhere."""
    rows = tensor.reshape(-1, row_length(tensor))
    return rows[:: max(1, rows.shape[0] >> 16, tensor.numel() // _PIECE)]


def indices_of(places: torch.Tensor, shape: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """The index in each dimension of places in row-major order. ``torch.unravel_index`` would
    import sympy at its first call, for two seconds."""
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
    """The largest absolute value of each row, NaN if there is one: (rows,). Faster than
    ``isfinite``; on the CPU a norm is slow, and two passes are not."""
    if accelerator_of(rows.device).on_host:
        return torch.maximum(rows.amax(1), -rows.amin(1))
    found: torch.Tensor = torch.linalg.vector_norm(rows, math.inf, 1)
    return found


def smallest_at(values: torch.Tensor, places: Sequence[int]) -> list[torch.Tensor]:
    """The values at these places in sorted order. A GPU sorts faster than it selects, and a CPU
    selects two faster than it sorts."""
    if accelerator_of(values.device).on_host:
        return [values.kthvalue(place + 1).values for place in places]
    in_order = values.sort().values
    return [in_order[place] for place in places]


def row_rms(tensor: torch.Tensor) -> torch.Tensor:
    """Root mean square of each row, in float64; the last dimension is kept with length one."""
    return tensor.double().nan_to_num(0.0, 0.0, 0.0).square().mean(dim=-1, keepdim=True).sqrt()
