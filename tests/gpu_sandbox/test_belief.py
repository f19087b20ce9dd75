"""What a claim is worth beside the outer clock, and beside what no call can do without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.api.statistics import Estimate
from gpu_sandbox.verifier.timing.claim_rules import WRITING, agrees, decide, is_corroborated

CLOCK = "the verifier's clock"
BLUR = 0.02


def about(ratio: float, width: float = 1.02) -> Estimate:
    return Estimate(ratio, ratio / width, ratio * width)


@pytest.mark.parametrize(
    ("claim", "bound", "gated", "least", "ratio", "why"),
    [
        (about(0.5), about(0.5), False, 0.0, 0.5, ""),
        (about(0.5), about(0.6, width=1.3), False, 0.0, 0.58 / 1.1, CLOCK),  # noise
        (about(0.5), about(0.6, width=1.3), True, 0.0, 0.5, ""),  # it has gates
        (about(0.5), about(0.6), False, 0.0, 0.6, CLOCK),  # surely
        (about(0.5), about(0.7, width=2.0), True, 0.0, 0.7, CLOCK),  # too much for noise
        (about(0.1), about(0.1), False, 0.2, 0.2, WRITING),
        (about(0.15), about(0.15), False, 0.2, 0.15, ""),  # another way to write
        (about(0.15), about(0.15), True, 0.2, 0.2, WRITING),  # 2.4 us of 4.4, where filling takes 4
        (about(0.19), about(0.19), True, 0.2, 0.19, ""),
        (about(0.1), about(0.9), False, 0.2, 0.9, CLOCK),  # nobody is scored by less than that
        (about(0.1), about(0.18), False, 0.2, 0.2, WRITING),
    ],
)
def test_the_greatest_counts(
    claim: Estimate, bound: Estimate, gated: bool, least: float, ratio: float, why: str
) -> None:
    found, told = decide(claim, bound, BLUR, gated=gated, least=least)
    assert (found.ratio, told) == (pytest.approx(ratio), why)


RATIOS = st.floats(0.01, 10)
ESTIMATES = st.builds(about, RATIOS, st.floats(1.0, 3.0))


@given(ESTIMATES, ESTIMATES, st.floats(0, 0.5), st.booleans(), st.floats(0, 1))
def test_nobody_is_scored_faster_than_is_claimed_or_can_be(
    claim: Estimate, bound: Estimate, uncertainty: float, gated: bool, least: float
) -> None:
    found, why = decide(claim, bound, uncertainty, gated=gated, least=least)
    assert found.low <= found.ratio <= found.high
    if why:
        assert found.ratio > claim.ratio
    else:
        assert found == claim
        assert claim.ratio >= (0.9 if gated else 0.7) * least
    assert found.ratio * 1.25 + uncertainty >= bound.ratio * 0.999
    assert gated or found.ratio * 1.1 + uncertainty >= bound.ratio * 0.999
    if agrees(claim, bound, uncertainty):
        assert is_corroborated(claim, bound, uncertainty)
