"""Columns of an output, one index of its last dimension in all rows, that are wrong as a whole.

One of thousands is nothing in a norm, in half precision each of its elements may be off by half of
its row, and of integers as many may have flipped by rounding. But what rounding makes of an output
is not all in one place, and the scores that are put behind long rows may be all that is computed.
"""

from __future__ import annotations

import secrets

import torch

from gpu_sandbox.child.pieces import pieces

__all__ = ["flipped", "lost", "lost_in_some", "none_lost", "sound"]

_ROWS, _LARGE = 16, 1 << 24
"""Of more elements some of the rows are looked at."""
_SOME = 1 << 18
"""Elements, which say as much of most columns as all do."""
_LOST = 0.5
"""Of a column's norm; of integers, of how many there are."""
_TIMES = 8.0
_SOUND = 1 / 32
"""Of a column's norm: what the reference's own run may be off by, so that it is enough to hold
columns of another of its runs against."""
_LEAST = 0.05
"""Of the median column's norm: what is less may be what is left of larger numbers."""


def lost(
    truth: torch.Tensor,
    native: torch.Tensor,
    got: torch.Tensor,
    among: torch.Tensor | None = None,
) -> list[int]:
    """Those of which half is missing, and eight times what the reference's own run is off by.
    ``among``: of these only."""
    if not _has_columns(truth):
        return []
    if truth.numel() > _LARGE:
        truth, native, got = _some_rows(truth, native, got)
    own, off, size = _norms(truth, native, got)
    missing = _counts(size) & (off > _LOST * size) & (off > _TIMES * own)
    return _first(missing if among is None else missing & among)


def sound(truth: torch.Tensor, native: torch.Tensor) -> torch.Tensor | None:
    """Whether the reference's own run has hardly lost anything of each: (columns,). By some of the
    rows. None where there are no columns."""
    if not _has_columns(truth):
        return None
    own, _, size = _norms(*_some_rows(truth, native, native))
    found: torch.Tensor = own < _SOUND * size
    return found & _counts(size)


def lost_in_some(native: torch.Tensor, got: torch.Tensor, among: torch.Tensor) -> list[int]:
    """The same beside the reference's own run, and in rows only that nobody knows."""
    if not _has_columns(native):
        return []
    rows, mine = _some_rows(native, got)
    return lost(rows, rows, mine, among)


def _norms(truth: torch.Tensor, native: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Of each column: how far off its own run is, and ``got``, and its size: (3, columns)."""
    found = []
    for piece in pieces(truth, native, got):
        rows, native, got = (t.double().nan_to_num(0.0, 0.0, 0.0) for t in piece)
        each = (rows, got.sub_(rows), native.sub_(rows))
        found.append(torch.stack([t.square_().sum(dim=0) for t in reversed(each)]))
    return torch.stack(found).sum(dim=0).sqrt_()


def _counts(size: torch.Tensor) -> torch.Tensor:
    there = size[size > 0]
    return size > _LEAST * there.median() if there.numel() else size > 0


def _some_rows(*outputs: torch.Tensor) -> list[torch.Tensor]:
    """The same of each, as many as columns need at least."""
    each = [_rows(output) for output in outputs]
    step = max(1, min(each[0].numel() // _SOME, each[0].shape[0] // _ROWS))
    start = secrets.randbelow(step)
    return [rows[start::step] for rows in each]


def none_lost(truth: torch.Tensor, off: float) -> bool:
    """Whether that is so of any output that is ``off`` from it by that in all, as L2 norm; by some
    of its rows, so False may mean nothing."""
    if not _has_columns(truth):
        return True
    (some,) = _some_rows(truth)
    size = torch.linalg.vector_norm(some.double().nan_to_num(0.0, 0.0, 0.0), dim=0)
    return off <= _LOST * _LEAST * float(size.median())


def flipped(native: torch.Tensor, got: torch.Tensor) -> list[int]:
    """Of integers: those of which more than half are others."""
    if not _has_columns(native):
        return []
    others = _rows(native) != _rows(got)
    return _first(others.sum(dim=0) > _LOST * others.shape[0])


def _has_columns(output: torch.Tensor) -> bool:
    if output.dim() < 2 or output.is_complex() or output.shape[-1] < 2:
        return False
    return output.numel() >= _ROWS * output.shape[-1]


def _rows(output: torch.Tensor) -> torch.Tensor:
    return output.detach().reshape(-1, output.shape[-1])


def _first(columns: torch.Tensor) -> list[int]:
    return columns.nonzero().flatten()[:3].tolist()
