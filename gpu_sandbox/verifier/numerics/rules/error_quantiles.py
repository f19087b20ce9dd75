"""A bound on the relative error of most elements, each beside its own size.

L2 norms follow the largest elements, and so does the reference's own error. So half of the
elements, and nine in ten, are held to some times what as many of the reference's are off by. Of a
large output a sample is looked at, which is drawn in secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import torch

from events.figures import percent
from gpu_sandbox.tensors.chunked import as_real, smallest_at
from gpu_sandbox.tensors.random_indices import some_of
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation, Wrong
from gpu_sandbox.verifier.numerics.rules.rule import (
    Calibration,
    Figures,
    Rule,
    RunPair,
    is_discrete,
)
from gpu_sandbox.verifier.numerics.tolerances import DtypeTolerance

if TYPE_CHECKING:
    from gpu_sandbox.verifier.numerics.expected import Expected

_SHARES = (0.5, 0.1)  # of elements that may be further off than `half` and `most`
_SAMPLE = 1 << 16
_MIN_ELEMENTS = 256
NOTHING = 1e-10  # of the largest: smaller elements are what float64 leaves of zero
MIN_SIZE = 1e-3  # of the median non-zero: less may be what is left of larger numbers
_AND_ITS_OWN = 9 / 8
"""timed calls have the reference's own error, an eighth of the bound, in addition"""


class QuantileBound(msgspec.Struct, frozen=True):
    """Relative errors that half of the elements, and nine in ten, may have."""

    half: float
    most: float
    min_size: float  # of an element that counts
    share: float  # of all elements, about as many count: to count them again takes a GPU as long

    def times(self, factor: float) -> QuantileBound:
        return self._with(self.half * factor, self.most * factor)

    def plus(self, half: float, most: float) -> QuantileBound:
        return self._with(self.half + half, self.most + most)

    def at_least(self, half: float, most: float) -> QuantileBound:
        return self._with(max(self.half, half), max(self.most, most))

    def at_most(self, half: float, most: float) -> QuantileBound:
        return self._with(min(self.half, half), min(self.most, most))

    def _with(self, half: float, most: float) -> QuantileBound:
        return QuantileBound(half, most, self.min_size, self.share)


class ErrorQuantiles(Rule[QuantileBound, QuantileBound]):
    """On inputs as the task draws them: errors of transformed ones are elsewhere."""

    def calibrate(self, runs: Calibration) -> QuantileBound | None:
        if not runs.as_drawn:
            return None
        found = [quantiles_between(pair.truth, pair.other) for pair in runs.pairs]
        own = [one.times(runs.by_dtype.k) for one in found if one is not None]
        if not own:
            return None
        half, most = runs.min_quantiles
        half, most = max(half, *(b.half for b in own)), max(most, *(b.most for b in own))
        return msgspec.structs.replace(own[0], half=half, most=most)

    def spread(self, pair: RunPair) -> QuantileBound | None:
        return None if is_discrete(pair.truth) else quantiles_between(pair.truth, pair.other)

    def larger(self, spread: QuantileBound, other: QuantileBound) -> QuantileBound:
        return spread.at_least(other.half, other.most)

    def widen(
        self, bound: QuantileBound | None, spread: QuantileBound | None, expected: Expected
    ) -> QuantileBound | None:
        by = expected.by_dtype
        if bound is None or spread is None or by is None:
            return bound
        return self.larger(bound, spread.times(by.k).at_most(*by.quantiles(by.without_float64)))

    def grant(
        self, bound: QuantileBound | None, pair: RunPair, by: DtypeTolerance
    ) -> QuantileBound | None:
        most = quantiles_between(pair.truth, pair.other)
        return bound if bound is None or most is None else self.larger(bound, most.times(by.k))

    def for_timed(self, bound: QuantileBound) -> QuantileBound:
        return bound.times(_AND_ITS_OWN)

    def scale(self, bound: QuantileBound, factor: float) -> QuantileBound:
        return bound.times(factor)

    def prepare(self, reference: Reference) -> QuantileBound | None:
        expected = reference.expected
        bound: QuantileBound | None = expected.bounds.get(self)
        if not reference.by_norms or bound is None or expected.by_dtype is None:
            return None
        more = expected.nondeterminism.tolerance
        return bound.plus(*expected.by_dtype.quantiles(more)) if more else bound

    def check(self, bound: QuantileBound, output: Comparison) -> Violation | None:
        for error, allowed, share in _shares(bound, output):
            if share > allowed:
                reason = f"more than {percent(allowed)} of elements are off by over {error:.1e} of "
                return output.violation(_off_by(error, bound), reason + "their size")
        return None

    def surely_ok(self, bound: QuantileBound, figures: Figures) -> bool:
        if figures.is_same:
            return True
        if figures.in_float64:
            return all(share <= allowed for _, allowed, share in _shares(bound, figures.output))
        return figures.measured[self] <= min(_SHARES)

    def measure(
        self, bound: QuantileBound, native: torch.Tensor, got: torch.Tensor, dtype: torch.dtype
    ) -> torch.Tensor:
        """Measure by the smaller of the two errors: its share is to be the smaller one."""
        return _shares_off(bound, native, got, bound.half, dtype)


QUANTILES = ErrorQuantiles()


def quantiles_between(truth: torch.Tensor, other: torch.Tensor) -> QuantileBound | None:
    """Relative errors of half of the elements and of nine in ten. None if few are not zero."""
    flat = (as_real(t.detach()).reshape(-1) for t in (truth, other))
    truth, other = (t.double() for t in sample_of(*flat))
    size = truth.abs().nan_to_num(0.0, 0.0, 0.0)
    there = int((size > NOTHING * size.amax()).sum()) if size.numel() else 0
    if there < _MIN_ELEMENTS:
        return None
    (middle,) = _quantiles(size, there, [0.5])
    min_size = MIN_SIZE * middle
    counts = size > min_size
    counted = int(counts.sum())
    off = ((other - truth).abs_() / size).nan_to_num_(0.0, 0.0, 0.0).masked_fill_(~counts, -1.0)
    half, most = _quantiles(off, counted, [1 - share for share in _SHARES])
    return QuantileBound(half, most, min_size, counted / size.numel())


def _shares(bound: QuantileBound, output: Comparison) -> Iterator[tuple[float, float, float]]:
    """Each error, the share of elements that may be further off, and the share that is."""
    truth, mine = (as_real(t.detach()).reshape(1, -1) for t in (output.expected.truth, output.got))
    for error, allowed in zip((bound.half, bound.most), _SHARES, strict=True):
        yield error, allowed, float(_shares_off(bound, truth, mine, error, torch.float64))


def _off_by(error: float, bound: QuantileBound) -> Wrong:
    def off(_: torch.Tensor, truth: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        size = truth.double().abs()
        far = (got.double() - truth.double()).abs() > error * size
        return far & (size > bound.min_size) & size.isfinite()

    return off


def _shares_off(
    bound: QuantileBound, truth: torch.Tensor, got: torch.Tensor, error: float, dtype: torch.dtype
) -> torch.Tensor:
    """Of outputs, one a row, the share of elements that are further off: (outputs,)."""
    truth, got = (t.to(dtype) for t in sample_of(truth, got))
    size = truth.abs()
    off = ((got - truth).abs() > error * size) & (size > bound.min_size)
    return off.sum(dim=1).to(dtype) / (truth.shape[1] * bound.share)


def sample_of(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The same random elements of the last dimension of each; all of them if there are few."""
    count = tensors[0].shape[-1]
    if count < 2 * _SAMPLE:
        return list(tensors)
    places = some_of(count, _SAMPLE, tensors[0].device)
    return [t.index_select(-1, places) for t in tensors]


def _quantiles(values: torch.Tensor, of: int, shares: Sequence[float]) -> list[float]:
    """Quantiles of the largest ``of`` values."""
    first = values.numel() - of
    places = [first + max(1, math.ceil(share * of)) - 1 for share in shares]
    found: list[float] = torch.stack(smallest_at(values, places)).tolist()
    return found
