"""Columns of an output, one index of its last dimension in all rows, that are wrong as a whole.

One of thousands is nothing in a norm, in half precision each of its elements may be off by half of
its row, and of integers as many may have flipped by rounding. But what rounding makes of an output
is not all in one place, and the scores that are put behind long rows may be all that is computed.
"""

from __future__ import annotations

import torch

from gpu_sandbox.child.pieces import pieces

__all__ = ["flipped", "lost", "none_lost"]

_ROWS, _LARGEST = 16, 1 << 24
_SOME = 1 << 18
"""Elements, which say as much of most columns as all do."""
_LOST = 0.5
"""Of a column's norm; of integers, of how many there are."""
_TIMES = 8.0
_LEAST = 0.05
"""Of the median column's norm: what is less may be what is left of larger numbers."""


def lost(truth: torch.Tensor, native: torch.Tensor, got: torch.Tensor) -> list[int]:
    """Those of which half is missing, and eight times what the reference's own run is off by."""
    if not _has_columns(truth):
        return []
    found = []
    for piece in pieces(truth, native, got):
        rows, native, got = (t.double().nan_to_num(0.0, 0.0, 0.0) for t in piece)
        each = (rows, got.sub_(rows), native.sub_(rows))
        found.append(torch.stack([t.square_().sum(dim=0) for t in reversed(each)]))
    own, off, size = torch.stack(found).sum(dim=0).sqrt_()
    there = size[size > 0]
    if there.numel() == 0:
        return []
    counts = size > _LEAST * there.median()
    return _first(counts & (off > _LOST * size) & (off > _TIMES * own))


def none_lost(truth: torch.Tensor, off: float) -> bool:
    """Whether that is so of any output that is ``off`` from it by that in all, as L2 norm; by some
    of its rows, so False may mean nothing."""
    if not _has_columns(truth):
        return True
    rows = _rows(truth)
    some = rows[:: max(1, rows.numel() // _SOME)].double().nan_to_num(0.0, 0.0, 0.0)
    size = torch.linalg.vector_norm(some, dim=0)
    return off <= _LOST * _LEAST * float(size.median())


def flipped(native: torch.Tensor, got: torch.Tensor) -> list[int]:
    """Of integers: those of which more than half are others."""
    if not _has_columns(native):
        return []
    return _first((_rows(native) != _rows(got)).double().mean(dim=0) > _LOST)


def _has_columns(output: torch.Tensor) -> bool:
    if output.dim() < 2 or output.is_complex() or not 0 < output.numel() <= _LARGEST:
        return False
    return output.shape[-1] > 1 and output.numel() >= _ROWS * output.shape[-1]


def _rows(output: torch.Tensor) -> torch.Tensor:
    return output.detach().reshape(-1, output.shape[-1])


def _first(columns: torch.Tensor) -> list[int]:
    return columns.nonzero().flatten()[:3].tolist()
