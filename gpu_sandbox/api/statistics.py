"""Statistics of paired timings. Pure.

The estimate is the median of log-ratios of pairs; its interval runs between order statistics with
ranks from the binomial distribution, which assumes independent pairs only. The first of a pair
finds the machine in another state than the second, so medians are taken of each order, and their
mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

_FEW_PAIRS_DOUBT = math.log(1.25)
_FEWEST_FOR_A_MEAN = 5
_ENOUGH_OF_AN_ORDER = 6  # for an interval of 95 %


class Estimate(msgspec.Struct, frozen=True):
    """A ratio candidate / baseline with its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Of the interval of the log-ratio: about the relative half-width."""
        return math.log(self.high / self.low) / 2

    def at_least(self, ratio: float) -> Estimate:
        return Estimate(max(self.ratio, ratio), max(self.low, ratio), max(self.high, ratio))


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


def estimate_median(
    candidate: Sequence[float], baseline: Sequence[float], first: Sequence[bool] = ()
) -> Estimate:
    """Median of paired log-ratios with its order-statistic interval. ``first``: in which pairs
    the candidate came first, where known. Of fewer than six pairs, which can't give 95 %, the
    interval is their range, widened by a quarter on both sides."""
    logs = [math.log(c / b) for c, b in zip(candidate, baseline, strict=True)]
    low, middle, high = _median_of_orders(logs, first)
    doubt = _FEW_PAIRS_DOUBT if len(logs) < _ENOUGH_OF_AN_ORDER else 0.0
    return Estimate(math.exp(middle), math.exp(low - doubt), math.exp(high + doubt))


def estimate_bound(
    bounds: Sequence[float], baseline: Sequence[float], first: Sequence[bool] = ()
) -> Estimate:
    """Median of ratios whose numerators are differences of noisy readings, so that single
    ones may be negative; clipping them would push the median up. At least a thousandth."""
    ratios = [c / b for c, b in zip(bounds, baseline, strict=True)]
    low, middle, high = _median_of_orders(ratios, first)
    return Estimate(max(middle, 1e-3), max(low, 1e-3), max(high, 1e-3))


def has_both_orders(first: Sequence[bool]) -> bool:
    """Whether there are enough of each order for medians of their own."""
    return min(sum(first), len(first) - sum(first)) >= _ENOUGH_OF_AN_ORDER


def middle_of_orders(values: Sequence[float], first: Sequence[bool]) -> float:
    """The median as the estimates take it."""
    return _median_of_orders(values, first)[1]


def _median_of_orders(values: Sequence[float], first: Sequence[bool]) -> tuple[float, float, float]:
    """Low, median, high: the mean of both orders', whose errors are independent; of all
    together, where there are too few of an order."""
    if not has_both_orders(first):
        return _median(values)
    pairs = list(zip(values, first, strict=True))
    orders = [[v for v, was_first in pairs if was_first is order] for order in (True, False)]
    (low_a, a, high_a), (low_b, b, high_b) = (_median(order) for order in orders)
    middle = (a + b) / 2
    below, above = math.hypot(a - low_a, b - low_b) / 2, math.hypot(high_a - a, high_b - b) / 2
    return middle - below, middle, middle + above


def _median(values: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    rank = _rank(len(ordered))
    return ordered[rank - 1], quantile(ordered, 0.5), ordered[-rank]


def mean_over_median(
    candidate: Sequence[float], baseline: Sequence[float], first: Sequence[bool] = ()
) -> float:
    """Trimmed ratio of means over the median ratio: about one unless the candidate's readings are
    multimodal. One of fewer than five pairs."""
    if len(candidate) < _FEWEST_FOR_A_MEAN:
        return 1.0
    pairs = sorted(zip(candidate, baseline, strict=True), key=lambda pair: pair[0] / pair[1])
    cut = max(1, len(pairs) // 10)
    middle = pairs[cut:-cut]
    mean = sum(c for c, _ in middle) / sum(b for _, b in middle)
    logs = [math.log(c / b) for c, b in zip(candidate, baseline, strict=True)]
    return mean / math.exp(middle_of_orders(logs, first))


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
