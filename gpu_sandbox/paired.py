"""Statistics of paired timings. Pure: numbers in, numbers out.

The estimate is the median of the log-ratios of pairs, its interval runs between order
statistics whose ranks follow from the binomial distribution: no assumption about the
noise but that pairs are independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

__all__ = [
    "Estimate",
    "estimate_bound",
    "estimate_mean",
    "estimate_median",
    "quantile",
    "relative_spread",
]


_FEW_PAIRS_DOUBT = math.log(1.25)


class Estimate(msgspec.Struct, frozen=True):
    """A ratio candidate / baseline with its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Of the interval of the log-ratio: about the relative half-width."""
        return math.log(self.high / self.low) / 2


@lru_cache(maxsize=1024)
def _rank(n: int) -> int:
    """The largest r ≥ 1 for which [x_r, x_(n+1−r)] covers the median with 95 %.

    Below 6 values there is none: then 1, and the caller widens the range.
    """
    tail, rank = 0.0, 0
    for k in range(n // 2):
        tail += math.comb(n, k) * 0.5**n
        if tail > 0.025:
            break
        rank = k + 1
    return max(rank, 1)


def quantile(values: Sequence[float], q: float) -> float:
    """Linear interpolation between order statistics."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = math.ceil(position)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def relative_spread(values: Sequence[float]) -> float:
    """(p95 − p5) / median; 0 where that is 0."""
    middle = quantile(values, 0.5)
    return (quantile(values, 0.95) - quantile(values, 0.05)) / middle if middle else 0.0


def estimate_median(candidate: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Median of paired log-ratios with its order-statistic interval.

    Fewer than six pairs (of very slow models) can't give 95 %: their range, widened by
    a quarter on both sides, at least admits that.
    """
    logs = sorted(math.log(c / b) for c, b in zip(candidate, baseline, strict=True))
    rank = _rank(len(logs))
    doubt = _FEW_PAIRS_DOUBT if len(logs) < 6 else 0.0
    return Estimate(
        math.exp(quantile(logs, 0.5)),
        math.exp(logs[rank - 1] - doubt),
        math.exp(logs[-rank] + doubt),
    )


def estimate_bound(bounds: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Median of ratios whose numerators are differences of noisy readings, so that single
    ones may be negative; clipping them would push the median up. At least a thousandth."""
    ratios = sorted(c / b for c, b in zip(bounds, baseline, strict=True))
    rank = _rank(len(ratios))
    low, middle, high = ratios[rank - 1], quantile(ratios, 0.5), ratios[-rank]
    return Estimate(max(middle, 1e-3), max(low, 1e-3), max(high, 1e-3))


def estimate_mean(candidate: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Ratio of means, as published tables have it; interval by the delta method."""
    n = len(candidate)
    mean_c, mean_b = sum(candidate) / n, sum(baseline) / n
    ratio = mean_c / mean_b
    if n < 2:
        return Estimate(ratio, ratio, ratio)
    residuals = ((c - ratio * b) / mean_b for c, b in zip(candidate, baseline, strict=True))
    spread = math.sqrt(sum(r * r for r in residuals) / (n - 1) / n) * 1.96
    return Estimate(ratio, ratio * math.exp(-spread / ratio), ratio * math.exp(spread / ratio))
