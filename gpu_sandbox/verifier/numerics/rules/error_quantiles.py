"""What most elements of an output may be off by, each beside what it is itself.

Norms go by what is large: the forces of a gas, a few atoms of which nearly touch, are right by
them where all other atoms have none. And how far the reference itself is off goes by where it is
worst: a batch of equations, one of which is next to singular. So half of the elements, and nine in
ten, are held to some times what that many of the reference's are off by. Looked at are some that
nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import torch

from events.figures import percent
from gpu_sandbox.tensors.chunked import as_real, smallest_at
from gpu_sandbox.tensors.random_indices import some_of
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation, Wrong
from gpu_sandbox.verifier.numerics.rules.rule import Figures

__all__ = ["LEAST_SIZE", "NOTHING", "Bulk", "ErrorQuantiles", "apart", "bulk_of", "looked_at"]

SHARES = (0.5, 0.1)
"""Of the elements that count, so many may be further off than ``half`` and ``most``."""
_LOOKED_AT = 1 << 16
_FEWEST = 256
NOTHING = 1e-10
"""Of the largest: what is smaller is what float64 has left of zero."""
LEAST_SIZE = 1e-3
"""Of the median of those that are not zero: what is smaller does not count, as it may be what is
left of larger numbers."""


class Bulk(msgspec.Struct, frozen=True):
    """Relative errors, the ``least`` absolute value of an element that counts, and what share of
    all do, about: that is not counted again in each output, which takes a GPU as long."""

    half: float
    most: float
    least: float
    counted: float

    def times(self, factor: float) -> Bulk:
        return self._with(self.half * factor, self.most * factor)

    def plus(self, half: float, most: float) -> Bulk:
        return self._with(self.half + half, self.most + most)

    def at_least(self, other: Bulk) -> Bulk:
        return self._with(max(self.half, other.half), max(self.most, other.most))

    def at_most(self, half: float, most: float) -> Bulk:
        return self._with(min(self.half, half), min(self.most, most))

    def _with(self, half: float, most: float) -> Bulk:
        return Bulk(half, most, self.least, self.counted)


class ErrorQuantiles:
    """On inputs as the task draws them. The bound has the two errors, and what elements count."""

    def prepare(self, reference: Reference) -> Bulk | None:
        return reference.allowed.bulk if reference.by_norms else None

    def check(self, bound: Bulk, output: Comparison) -> Violation | None:
        for error, allowed, share in _shares(bound, output):
            if share > allowed:
                reason = f"{percent(allowed)} of elements may be off by more than {error:.1e} of "
                return output.violation(_off_by(error, bound), reason + "what they are")
        return None

    def surely_ok(self, bound: Bulk, figures: Figures) -> bool:
        if figures.is_same:
            return True
        if figures.in_float64:
            return all(share <= allowed for _, allowed, share in _shares(bound, figures.output))
        return figures.measured[self] <= min(SHARES)

    def measure(
        self, bound: Bulk, native: torch.Tensor, got: torch.Tensor, dtype: torch.dtype
    ) -> torch.Tensor:
        """By the smaller of the two errors: its share is to be the smaller one."""
        return _shares_off(bound, native, got, bound.half, dtype)


def apart(truth: torch.Tensor, other: torch.Tensor) -> Bulk | None:
    """What half of the elements, and nine in ten, do not exceed. None if few are not zero."""
    flat = (as_real(t.detach()).reshape(-1) for t in (truth, other))
    truth, other = (t.double() for t in looked_at(*flat))
    size = truth.abs().nan_to_num(0.0, 0.0, 0.0)
    there = int((size > NOTHING * size.amax()).sum()) if size.numel() else 0
    if there < _FEWEST:
        return None
    (middle,) = _quantiles(size, there, [0.5])
    least = LEAST_SIZE * middle
    counts = size > least
    counted = int(counts.sum())
    off = ((other - truth).abs_() / size).nan_to_num_(0.0, 0.0, 0.0).masked_fill_(~counts, -1.0)
    half, most = _quantiles(off, counted, [1 - share for share in SHARES])
    return Bulk(half, most, least, counted / size.numel())


def bulk_of(
    truth: torch.Tensor, others: list[torch.Tensor], k: float, half: float, most: float
) -> Bulk | None:
    """``k`` times as far as ``others``, which are the reference's own, are from its float64 run, or
    ``half`` and ``most``, where that is more."""
    found = [apart(truth, other) for other in others]
    seen = [one.times(k) for one in found if one is not None]
    if not seen:
        return None
    half, most = max(half, *(b.half for b in seen)), max(most, *(b.most for b in seen))
    return msgspec.structs.replace(seen[0], half=half, most=most)


def _shares(bulk: Bulk, output: Comparison) -> Iterator[tuple[float, float, float]]:
    """Each error, the share of elements that may be further off, and the share that is."""
    truth, mine = (as_real(t.detach()).reshape(1, -1) for t in (output.expected.truth, output.got))
    for error, allowed in zip((bulk.half, bulk.most), SHARES, strict=True):
        yield error, allowed, float(_shares_off(bulk, truth, mine, error, torch.float64))


def _off_by(error: float, bulk: Bulk) -> Wrong:
    def off(_: torch.Tensor, truth: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        size = truth.double().abs()
        far = (got.double() - truth.double()).abs() > error * size
        return far & (size > bulk.least) & size.isfinite()

    return off


def _shares_off(
    bulk: Bulk, truth: torch.Tensor, got: torch.Tensor, error: float, dtype: torch.dtype
) -> torch.Tensor:
    """Of outputs that are a row each, how many of the elements that count, as a share, are further
    off than that: (outputs,), on the device."""
    truth, got = (t.to(dtype) for t in looked_at(truth, got))
    size = truth.abs()
    off = ((got - truth).abs() > error * size) & (size > bulk.least)
    return off.sum(dim=1).to(dtype) / (truth.shape[1] * bulk.counted)


def looked_at(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The same elements of the last dimension of each, which nobody knows, if there are many."""
    count = tensors[0].shape[-1]
    if count < 2 * _LOOKED_AT:
        return list(tensors)
    places = some_of(count, _LOOKED_AT, tensors[0].device)
    return [t.index_select(-1, places) for t in tensors]


def _quantiles(values: torch.Tensor, of: int, shares: Sequence[float]) -> list[float]:
    """Of so many of the largest of them."""
    first = values.numel() - of
    places = [first + max(1, math.ceil(share * of)) - 1 for share in shares]
    found: list[float] = torch.stack(smallest_at(values, places)).tolist()
    return found
