from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.paired import estimate_mean, estimate_median, quantile

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


def test_few_pairs_admit_their_doubt() -> None:
    found = estimate_median([2.0], [1.0])
    assert (found.low, found.ratio, found.high) == pytest.approx((1.6, 2.0, 2.5))


def test_quantiles_interpolate() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([7.0], 0.95) == 7.0
