"""Columns of an output, one index of one of its dimensions each, that are wrong as a whole.

One of thousands is nothing in a norm, in half precision each of its elements may be off by half of
its row, and of integers as many may have flipped by rounding. But what rounding makes of an output
is not all in one place, and the scores that are put behind long rows may be all that is computed.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import NamedTuple

import torch

from gpu_sandbox.tensors.chunked import indices_of, pieces
from gpu_sandbox.tensors.random_indices import some_of
from gpu_sandbox.verifier.numerics.comparison import (
    Comparison,
    Reference,
    Violation,
    finite_or_none,
)
from gpu_sandbox.verifier.numerics.rules.error_quantiles import NOTHING
from gpu_sandbox.verifier.numerics.rules.rule import Figures

__all__ = [
    "Columns",
    "Slices",
    "dimensions_of",
    "in_both",
    "lost",
    "lost_in_some",
    "none_lost",
    "sound",
]

_ROWS = 16
"""As many numbers that are not zero a column has at least: of one in a row of zeros, which is where
the largest is, rounding makes another row."""
_SOME, _MORE, _MOST = 1 << 18, 1 << 7, 1 << 23
"""Elements, which say as much of most columns as all do. Of more columns than have as many numbers
in these, half of which may be zero, so many of each, but not more elements than the last."""
_MOST_COLUMNS = 1 << 22
"""Of a dimension that is longer none is looked at: a few numbers of each are gigabytes."""
_LOST = 0.5
"""Of a column's norm, or of what it is beside its mean."""
_VARIES = 1 / 16
"""Of its norm, at least: less may be rounding beside its mean."""
_TIMES = 8.0
_SOUND = 1 / 32
"""Of a column's norm: what the reference's own run may be off by, so that it is enough to hold
columns of another of its runs against."""
_LEAST = 0.05
"""Of the median column's norm: what is less may be what is left of larger numbers."""
_ALIKE = 1 / 2
"""Of what is the least that is lost with a column: in another output of the same task."""


class Columns(NamedTuple):
    """``those``: of each dimension which of its indices, (size,) booleans, or None where it is not
    looked at. ``least``: of an output that is off by less, as a share of its norm, none is lost."""

    those: tuple[torch.Tensor | None, ...]
    least: float

    def none_lost(self, off: float) -> bool:
        """``off``: relative L2 error of an output."""
        return off <= self.least


class _Bound(NamedTuple):
    """``among``: the columns that are to be there; None: all."""

    among: Columns | None


class Slices:
    """On inputs as the task draws them, and where a column of a timed call seems to be lost."""

    def prepare(self, reference: Reference) -> _Bound | None:
        expected = reference.expected
        if not reference.by_norms or not expected.drawn:
            return None
        beside_own = expected.truth is expected.native or expected.granted
        return _Bound(expected.columns if beside_own else None)

    def check(self, bound: _Bound, output: Comparison) -> Violation | None:
        expected = output.expected
        found = lost(expected.truth, expected.native, output.got, bound.among)
        if not found:
            return None
        _, worst = output.distance
        return Violation(reason=_reason(found), max_abs_error=finite_or_none(worst))

    def surely_ok(self, bound: _Bound, figures: Figures) -> bool:
        expected, got = figures.output.expected, figures.output.got
        if figures.in_float64:
            sure, among = none_lost(expected.truth, figures.off), None
        else:
            among = bound.among
            sure = among is not None and among.none_lost(figures.relative)
        return sure or not lost(expected.truth, expected.native, got, among)


def lost(
    truth: torch.Tensor,
    native: torch.Tensor,
    got: torch.Tensor,
    among: Columns | None = None,
    only: int | None = None,
) -> list[tuple[int, int]]:
    """Those, as dimension and index, of which half is missing, and eight times what the reference's
    own run is off by; the first of one dimension. ``among``: of these only; ``only``: of this
    dimension. Of large outputs some that nobody knows are looked at."""
    for dimension in dimensions_of(truth) if only is None else [only]:
        own, off, size, varies, there = _norms(*_some_rows(dimension, truth, native, got))
        counts = _counts(size, there, native.dtype)
        missing = counts & (off > _LOST * varies) & (off > _TIMES * own)
        these = None if among is None else among.those[dimension]
        found = _first(missing if these is None else missing & these)
        if found:
            return [(dimension, index) for index in found]
    return []


def sound(truth: torch.Tensor, native: torch.Tensor) -> Columns | None:
    """Whether the reference's own run has hardly lost anything of each. None where there are no
    columns."""
    looked_at = dimensions_of(truth)
    if not looked_at:
        return None
    found: list[torch.Tensor | None] = [None] * truth.dim()
    least = []
    for dimension in looked_at:
        own, _, size, varies, there = _norms(*_some_rows(dimension, truth, native, native))
        found[dimension] = (own < _SOUND * varies) & _counts(size, there, native.dtype)
        usual = _usual(size, _there(size, there, native.dtype))
        least.append(usual / torch.linalg.vector_norm(size))
    smallest = torch.stack(least).nan_to_num(nan=math.inf).amin()  # where none counts, none is lost
    return Columns(tuple(found), _ALIKE * _LOST * _VARIES * _LEAST * float(smallest))


def in_both(one: Columns, other: Columns | None) -> Columns:
    """Of one output's, those that are among the other's, too."""
    if other is None:
        return one
    ways = zip(one.those, other.those, strict=True)
    those = tuple(None if a is None or b is None else a & b for a, b in ways)
    return Columns(those, min(one.least, other.least))


def lost_in_some(native: torch.Tensor, got: torch.Tensor, among: Columns) -> list[tuple[int, int]]:
    """The same beside the reference's own run, and of one dimension only, nobody knows which."""
    looked_at = dimensions_of(native)
    return lost(native, native, got, among, secrets.choice(looked_at)) if looked_at else []


def none_lost(truth: torch.Tensor, off: float) -> bool:
    """Whether that is so of any output that is ``off`` from it by that in all, as L2 norm; by some
    of its rows, so False may mean nothing."""
    for dimension in dimensions_of(truth):
        size, there = _sizes(*_some_rows(dimension, truth))
        usual = float(_usual(size, _there(size, there, truth.dtype)))
        if not (math.isnan(usual) or off <= _LOST * _VARIES * _LEAST * usual):
            return False
    return True


def _reason(columns: Sequence[tuple[int, int]]) -> str:
    some = ", ".join(str(index) for _, index in columns)
    where = f"at these indices of dimension {columns[0][0]}"
    return f"nothing is as it should be {where}, or others: {some}"


def dimensions_of(output: torch.Tensor) -> list[int]:
    """Those that have columns."""
    if output.is_complex():
        return []
    most = min(output.numel() // _ROWS, _MOST_COLUMNS)
    return [d for d, size in enumerate(output.shape) if 1 < size <= most]


def _some_rows(dimension: int, *outputs: torch.Tensor) -> list[torch.Tensor]:
    """The same of each, (rows, columns): as many as columns need at least."""
    shape = outputs[0].shape
    columns, others = shape[dimension], (*shape[:dimension], *shape[dimension + 1 :])
    rows = math.prod(others)
    wanted = max(_ROWS, _SOME // columns, min(_MORE, _MOST // columns))
    if rows <= 2 * wanted:
        return [t.detach().movedim(dimension, -1).reshape(-1, columns) for t in outputs]
    where = indices_of(some_of(rows, wanted, outputs[0].device), others)
    return [t.detach().movedim(dimension, -1)[where] for t in outputs]


def _norms(truth: torch.Tensor, native: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Of each column: how far off its own run is, and ``got``, its size, and what of that is beside
    its mean, if that is much, and how many numbers it has that are not zero: (5, columns)."""
    found = truth.new_zeros(5, truth.shape[1], dtype=torch.float64)
    for piece in pieces(truth, native, got):
        rows, native, got = (t.double().nan_to_num(0.0, 0.0, 0.0) for t in piece)
        total, there = rows.sum(dim=0), (rows != 0.0).sum(dim=0)
        each = (rows, got.sub_(rows), native.sub_(rows))
        found += torch.stack([total, there, *(t.square_().sum(dim=0) for t in reversed(each))])
    total, there, own, off, size = found
    varies = (size - total.square() / truth.shape[0]).clamp(min=0.0)
    varies = torch.where(varies > _VARIES**2 * size, varies, size)
    return torch.stack([*(t.sqrt_() for t in (own, off, size, varies)), there])


def _sizes(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """And how many numbers of each are not zero."""
    finite = rows.double().nan_to_num(0.0, 0.0, 0.0)
    return torch.linalg.vector_norm(finite, dim=0), (finite != 0.0).sum(dim=0)


def _counts(size: torch.Tensor, there: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    some = _there(size, there, dtype)
    return some & (size > _LEAST * _usual(size, some))


def _there(size: torch.Tensor, there: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Not what float64 has left of zero, nor what flushes to zero where that is fast."""
    flushed = torch.finfo(dtype).tiny * there.double().sqrt()
    return (size > NOTHING * size.amax()) & (size > flushed) & (there >= _ROWS)


def _usual(size: torch.Tensor, some: torch.Tensor) -> torch.Tensor:
    """Of some of them. NaN where there are none."""
    return size.masked_fill(~some, math.nan).nanmedian()


def _first(columns: torch.Tensor) -> list[int]:
    return columns.nonzero().flatten()[:3].tolist()
