"""A bound on the error of slices of an output: one index of one of its dimensions each.

One slice of thousands is nothing in a norm, but may be all that a call computes. Rounding errors
are not all in one place, so a slice that is mostly wrong is missing.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

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
from gpu_sandbox.verifier.numerics.rules.rule import Calibration, Figures, Rule, RunPair
from gpu_sandbox.verifier.numerics.tolerances import DtypeTolerance

if TYPE_CHECKING:
    from gpu_sandbox.verifier.numerics.expected import Expected

_MIN_ELEMENTS = 16  # non-zeros of a slice: of a one in a row of zeros rounding makes another row
_SAMPLE, _PER_SLICE, _MAX_SAMPLE = 1 << 18, 1 << 7, 1 << 23
"""Elements, which say as much of most slices as all do. Of more slices than have as many numbers
in these, half of which may be zero, so many of each, but not more elements than the last."""
_MAX_SLICES = 1 << 22  # of a dimension: a few numbers of each are gigabytes
_MISSING = 0.5  # of a slice's norm, or of what it is beside its mean
_VARIES = 1 / 16  # of its norm, at least: less may be rounding beside its mean
_OWN_ERRORS = 8.0
_SOUND = 1 / 32
"""Of a slice's norm: what the reference's own run may be off by, so that another of its runs can
be compared with that."""
_MIN_SHARE = 0.05  # of the median slice's norm: less may be what is left of larger numbers
_SIMILAR = 1 / 2  # of that error, in another output of the same task


class SliceSet(NamedTuple):
    """``those``: of each dimension which of its indices, (size,) booleans, or None where it is not
    checked. ``min_error``: the relative L2 error that a missing one makes at least."""

    those: tuple[torch.Tensor | None, ...]
    min_error: float


class _Among(NamedTuple):
    """Slices that may not be missing. None: all."""

    slices: SliceSet | None


class Slices(Rule[_Among, SliceSet]):
    """On inputs as the task draws them, and where a slice of a timed call seems to be missing."""

    def calibrate(self, runs: Calibration) -> SliceSet | None:
        pair = runs.pairs[0]
        return sound_slices(pair.truth, pair.other) if runs.as_drawn else None

    def grant(self, bound: SliceSet | None, pair: RunPair, by: DtypeTolerance) -> SliceSet | None:
        return bound and _intersection(bound, sound_slices(pair.truth, pair.other))

    def wants_full_check(
        self, bound: SliceSet, expected: Expected, got: torch.Tensor, error: float | None
    ) -> bool:
        if error is not None and error <= bound.min_error:
            return False
        rest, got = expected.without_fill(got)
        return bool(missing_in_one_dimension(rest.native, got, bound))

    def prepare(self, reference: Reference) -> _Among | None:
        expected = reference.expected
        if not reference.by_norms or not expected.full_check:
            return None
        beside_own = expected.truth is expected.native or expected.tf32_error
        return _Among(expected.bounds.get(self) if beside_own else None)

    def check(self, bound: _Among, output: Comparison) -> Violation | None:
        expected = output.expected
        found = missing_slices(expected.truth, expected.native, output.got, bound.slices)
        if not found:
            return None
        _, worst = output.distance
        return Violation(reason=_reason(found), max_abs_error=finite_or_none(worst))

    def surely_ok(self, bound: _Among, figures: Figures) -> bool:
        expected, got = figures.output.expected, figures.output.got
        if figures.in_float64:
            if none_missing(expected.truth, figures.error_norm):
                return True
            return not missing_slices(expected.truth, expected.native, got)
        if bound.slices is not None and figures.relative <= bound.slices.min_error:
            return True
        return not missing_slices(expected.truth, expected.native, got, bound.slices)


SLICES = Slices()


def missing_slices(
    truth: torch.Tensor,
    native: torch.Tensor,
    got: torch.Tensor,
    among: SliceSet | None = None,
    only: int | None = None,
) -> list[tuple[int, int]]:
    """The first slices of one dimension, as dimension and index, of which half is missing, and
    eight times what the reference's own run is off by. ``among``: of these; ``only``: of this
    dimension. Of large outputs a random sample is checked."""
    for dimension in dimensions_of(truth) if only is None else [only]:
        own, off, size, varies, there = _norms(*_sample(dimension, truth, native, got))
        counts = _counts(size, there, native.dtype)
        missing = counts & (off > _MISSING * varies) & (off > _OWN_ERRORS * own)
        these = None if among is None else among.those[dimension]
        found = (missing if these is None else missing & these).nonzero().flatten()[:3].tolist()
        if found:
            return [(dimension, index) for index in found]
    return []


def sound_slices(truth: torch.Tensor, native: torch.Tensor) -> SliceSet | None:
    """Find slices that the reference's own run computes well. None where there are no slices."""
    dimensions = dimensions_of(truth)
    if not dimensions:
        return None
    found: list[torch.Tensor | None] = [None] * truth.dim()
    shares = []
    for dimension in dimensions:
        own, _, size, varies, there = _norms(*_sample(dimension, truth, native, native))
        found[dimension] = (own < _SOUND * varies) & _counts(size, there, native.dtype)
        median = _median(size, _has_elements(size, there, native.dtype))
        shares.append(median / torch.linalg.vector_norm(size))
    smallest = torch.stack(shares).nan_to_num(nan=math.inf).amin()  # none counts: none is missing
    return SliceSet(tuple(found), _SIMILAR * _MISSING * _VARIES * _MIN_SHARE * float(smallest))


def _intersection(one: SliceSet, other: SliceSet | None) -> SliceSet:
    if other is None:
        return one
    pairs = zip(one.those, other.those, strict=True)
    those = tuple(None if a is None or b is None else a & b for a, b in pairs)
    return SliceSet(those, min(one.min_error, other.min_error))


def missing_in_one_dimension(
    native: torch.Tensor, got: torch.Tensor, among: SliceSet
) -> list[tuple[int, int]]:
    """``missing_slices`` beside the reference's own run, of a dimension drawn in secret."""
    dimensions = dimensions_of(native)
    return (
        missing_slices(native, native, got, among, secrets.choice(dimensions)) if dimensions else []
    )


def none_missing(truth: torch.Tensor, error_norm: float) -> bool:
    """Whether no output with that error can lack a slice, by a sample of rows: False is no
    answer."""
    for dimension in dimensions_of(truth):
        size, there = _sizes(*_sample(dimension, truth))
        median = float(_median(size, _has_elements(size, there, truth.dtype)))
        if not (math.isnan(median) or error_norm <= _MISSING * _VARIES * _MIN_SHARE * median):
            return False
    return True


def _reason(slices: Sequence[tuple[int, int]]) -> str:
    some = ", ".join(str(index) for _, index in slices)
    return f"slices {some} of dimension {slices[0][0]} are missing or wrong, maybe others"


def dimensions_of(output: torch.Tensor) -> list[int]:
    """List the dimensions whose slices are checked."""
    if output.is_complex():
        return []
    most = min(output.numel() // _MIN_ELEMENTS, _MAX_SLICES)
    return [d for d, size in enumerate(output.shape) if 1 < size <= most]


def _sample(dimension: int, *outputs: torch.Tensor) -> list[torch.Tensor]:
    """The same random elements of each slice: (elements, slices)."""
    shape = outputs[0].shape
    slices, others = shape[dimension], (*shape[:dimension], *shape[dimension + 1 :])
    rows = math.prod(others)
    wanted = max(_MIN_ELEMENTS, _SAMPLE // slices, min(_PER_SLICE, _MAX_SAMPLE // slices))
    if rows <= 2 * wanted:
        return [t.detach().movedim(dimension, -1).reshape(-1, slices) for t in outputs]
    where = indices_of(some_of(rows, wanted, outputs[0].device), others)
    return [t.detach().movedim(dimension, -1)[where] for t in outputs]


def _norms(truth: torch.Tensor, native: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Of each slice the L2 error of ``native`` and of ``got``, its norm, that beside its mean if
    it is much, and the number of elements that are not zero: (5, slices)."""
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
    """Norm of each slice, and how many of its elements are not zero."""
    finite = rows.double().nan_to_num(0.0, 0.0, 0.0)
    return torch.linalg.vector_norm(finite, dim=0), (finite != 0.0).sum(dim=0)


def _counts(size: torch.Tensor, there: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    some = _has_elements(size, there, dtype)
    return some & (size > _MIN_SHARE * _median(size, some))


def _has_elements(size: torch.Tensor, there: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Not what float64 has left of zero, nor what flushes to zero where that is fast."""
    flushed = torch.finfo(dtype).tiny * there.double().sqrt()
    return (size > NOTHING * size.amax()) & (size > flushed) & (there >= _MIN_ELEMENTS)


def _median(size: torch.Tensor, some: torch.Tensor) -> torch.Tensor:
    """Of ``some`` of them. NaN where there are none."""
    return size.masked_fill(~some, math.nan).nanmedian()
