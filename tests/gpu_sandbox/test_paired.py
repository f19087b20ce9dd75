from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.api.statistics import (
    Estimate,
    estimate_bound,
    estimate_mean,
    estimate_median,
    has_both_orders,
    mean_over_median,
    quantile,
)

TIMES = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=300)


@given(TIMES, st.randoms(use_true_random=False))
def test_the_interval_holds_the_estimate(times: list[float], rng: random.Random) -> None:
    candidate = [t * rng.uniform(0.5, 2) for t in times]
    for estimate in (estimate_median, estimate_mean):
        found = estimate(candidate, times)
        assert found.low <= found.ratio * (1 + 1e-9)
        assert found.ratio <= found.high * (1 + 1e-9)


@given(TIMES.filter(lambda times: len(times) >= 6), st.floats(0.1, 10))
def test_a_constant_ratio_is_found_whatever_the_drift(times: list[float], ratio: float) -> None:
    found = estimate_median([t * ratio for t in times], times)
    assert found.ratio == pytest.approx(ratio)
    assert found.half_width == pytest.approx(0, abs=1e-9)


def test_the_median_ignores_what_the_mean_does_not() -> None:
    baseline = [1.0] * 40
    candidate = [0.5] * 37 + [50.0] * 3
    assert estimate_median(candidate, baseline).ratio == pytest.approx(0.5)
    assert estimate_mean(candidate, baseline).ratio > 4


def test_the_interval_covers_the_true_ratio_about_95_times_in_100() -> None:
    rng = random.Random(1)
    covered = 0
    for _ in range(400):
        noise = [math.exp(rng.gauss(math.log(0.8), 0.1)) for _ in range(25)]
        found = estimate_median(noise, [1.0] * 25)
        covered += found.low <= 0.8 <= found.high
    assert 0.92 <= covered / 400 <= 0.99


def two_modes(rng: random.Random, pairs: int) -> tuple[list[float], list[bool]]:
    """Ratios of equals, of whom the second in a pair finds warm caches."""
    orders = [rng.random() < 0.5 for _ in range(pairs)]
    return [(1.2 if first else 1 / 1.2) * rng.lognormvariate(0, 0.01) for first in orders], orders


def test_who_came_first_does_not_move_the_median() -> None:
    rng = random.Random(2)
    apart, together = [], []
    for _ in range(200):
        ratios, orders = two_modes(rng, 40)
        ones = [1.0] * len(ratios)
        for estimate in (estimate_median, estimate_bound):
            found = estimate(ratios, ones, orders)
            middle = 1.0 if estimate is estimate_median else (1.2 + 1 / 1.2) / 2
            apart.append(found.ratio == pytest.approx(middle, abs=0.01))
            apart.append(found.low <= middle <= found.high)
        together.append(estimate_median(ratios, ones).ratio == pytest.approx(1.0, abs=0.01))
    assert sum(apart) / len(apart) > 0.95
    assert sum(together) / len(together) < 0.5, "what a median of all makes of it"


def test_with_few_of_one_order_all_are_taken_together() -> None:
    ratios = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    ones = [1.0] * len(ratios)
    found = estimate_median(ratios, ones, [True] * 5 + [False] * 2)
    assert found == estimate_median(ratios, ones)


def test_with_few_of_one_order_the_interval_is_not_to_be_trusted() -> None:
    rng, beside = random.Random(3), {True: 0, False: 0}
    for _ in range(3000):
        ratios, orders = two_modes(rng, 20)
        found = estimate_median(ratios, [1.0] * 20, orders)
        beside[has_both_orders(orders)] += (
            found.half_width < 0.01 and not found.low <= 1 <= found.high
        )
    assert beside[False] > 30, "narrow and wrong, of some 130: nobody is to stop at that"
    assert beside[True] < 0.02 * 3000


def test_few_pairs_admit_their_doubt() -> None:
    found = estimate_median([2.0], [1.0])
    assert (found.low, found.ratio, found.high) == pytest.approx((1.6, 2.0, 2.5))


def test_quantiles_interpolate() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([7.0], 0.95) == 7.0


def test_what_is_raised_keeps_its_order() -> None:
    found = Estimate(ratio=0.2, low=0.1, high=0.5).at_least(0.3)
    assert (found.low, found.ratio, found.high) == (0.3, 0.3, 0.5)


@pytest.mark.parametrize("count", [5, 8, 20, 60])
def test_a_mean_tells_what_a_median_does_not_and_a_single_reading_nothing(count: int) -> None:
    ones = [1.0] * count
    assert mean_over_median(ones, ones) == pytest.approx(1.0)
    assert mean_over_median([50.0, *ones[1:]], ones) == pytest.approx(1.0)
    assert mean_over_median(ones, [50.0, *ones[1:]]) == pytest.approx(1.0)
    slow = 2 * count // 5  # careful so often, and ten times as slow then
    times = mean_over_median([10.0] * slow + [1.0] * (count - slow), ones)
    assert times > 2.5
    orders = [bool(number % 2) for number in range(count)]
    by_order = [2.0 if first else 1.0 for first in orders]
    if has_both_orders(orders):
        assert mean_over_median(by_order, ones, orders) == pytest.approx(1.06, rel=0.01)
    assert mean_over_median(ones[:4], ones[:4]) == 1.0
