"""What walls behind gates say of a claim. Pure: no device is needed to decide."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.api.statistics import Estimate, quantile
from gpu_sandbox.verifier.timing.wall_clock_bound import GateCalibration, Judgement, judge_gated

OWN_NS, WARM_NS, EMPTY_NS, CALLS = 1_000_000.0, 800_000.0, 400_000.0, 20


def passage(*, together: bool = True) -> GateCalibration:
    return GateCalibration(
        together=together,
        calls=CALLS,
        empty_ns=EMPTY_NS,
        noise_ns=20_000.0,
        usual_ns=EMPTY_NS + WARM_NS,
        warm_ns=WARM_NS,
        cold_ns=OWN_NS,
        crypt_ns=1500.0,
        reading_ns=2000.0,
    )


def claim(ratio: float) -> Judgement:
    return Judgement(ratio, Estimate(ratio, ratio * 0.99, ratio * 1.01), at_most=50.0)


NOISE = (-9000.0, 4000.0, 0.0, 12_000.0, -3000.0, 1000.0, 7000.0, -6000.0, 2000.0, -1000.0)
LOW_NS = quantile(NOISE, 0.25)


def walls(ratio: float) -> list[float]:
    return [EMPTY_NS + ratio * OWN_NS + n for n in NOISE]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
def test_a_claim_that_the_walls_bear_out_stands(together: bool, ratio: float) -> None:
    before = claim(ratio)
    after = judge_gated(passage(together=together), walls(ratio), before)
    assert after.found == before.found
    assert not after.note


@pytest.mark.parametrize("together", [True, False])
def test_a_claim_far_below_the_walls_is_replaced_by_them(
    together: bool,
) -> None:
    """Both on a warm cache, whatever a cold one costs."""
    after = judge_gated(passage(together=together), walls(0.8), claim(0.1))
    assert after.found.ratio == pytest.approx(1.0, abs=0.01)
    assert after.at_most >= after.found.ratio
    assert "timing disputed" in after.note


@pytest.mark.parametrize("together", [True, False])
def test_a_claim_that_the_walls_bear_out_to_a_part_is_no_better_than_that(together: bool) -> None:
    """Of walls that are a quarter longer than claimed, less what they may be for no reason, a
    tenth is granted."""
    after = judge_gated(passage(together=together), walls(0.8), claim(0.7))
    surely_ns = 0.8 * OWN_NS + LOW_NS - passage().slack_ns
    left = (surely_ns / 1.1 + passage().reading_ns * CALLS) / OWN_NS
    assert after.found.ratio == pytest.approx(left)
    assert after.found.low == after.found.ratio
    assert f"{1 / left:.2f}x" in after.note
    assert not judge_gated(passage(together=together), walls(0.8), claim(0.74)).note


@given(st.floats(0.05, 1.5), st.floats(0.05, 1.0))
def test_no_claim_gains_more_than_a_tenth_beside_what_is_not_sure(
    true: float, share: float
) -> None:
    """Whatever is claimed, on a cache that makes no difference."""
    warm = msgspec.structs.replace(passage(), warm_ns=OWN_NS)
    found = judge_gated(warm, walls(true), claim(true * share)).found
    surely_ns = true * OWN_NS + LOW_NS - passage().slack_ns
    assert found.ratio >= (surely_ns / 1.1 + passage().reading_ns * CALLS) / OWN_NS * (1 - 1e-9)


@pytest.mark.parametrize("raised", [0.75, 0.9])
def test_who_was_scored_by_something_else_is_judged_by_its_claim(raised: float) -> None:
    """Else the lowest claims, which what filling outputs takes has raised, would pass a gate that
    higher ones do not."""
    before = msgspec.structs.replace(claim(0.3), found=Estimate(raised, raised, raised))
    after = judge_gated(passage(), walls(0.8), before)
    assert after.found.ratio == judge_gated(passage(), walls(0.8), claim(0.3)).found.ratio
    assert after.claim == 0.3
    assert f"{1 / 0.3:.2f}x by the candidate's own clock" in after.note


def test_a_gate_that_a_claim_passes_takes_nothing_back() -> None:
    raised = msgspec.structs.replace(claim(0.8), found=Estimate(0.9, 0.9, 0.9), note="why")
    after = judge_gated(passage(), walls(0.8), raised)
    assert (after.found, after.note) == (raised.found, "why")


def test_nobody_is_cleared_by_leaving_work_out_when_it_is_looked_at_again() -> None:
    """Of nine releases two in which next to nothing was done."""
    looked_again = [*walls(0.8)[:7], EMPTY_NS, EMPTY_NS + 1000.0]
    assert judge_gated(passage(), looked_again, claim(0.3)).found.ratio == pytest.approx(
        1.0, abs=0.02
    )


def test_of_two_walls_the_longer_counts() -> None:
    """A release may be short by chance."""
    short, long = walls(0.5)[0], walls(0.8)[0]
    assert not judge_gated(passage(), [short, short], claim(0.55)).note
    assert judge_gated(passage(), [short, long], claim(0.55)).note


def test_where_noise_hides_half_of_what_warm_calls_take_nothing_is_clear() -> None:
    noisy = msgspec.structs.replace(passage(), noise_ns=0.5 * WARM_NS)
    assert noisy.decides
    assert not noisy.decides_warm


@pytest.mark.parametrize("together", [True, False])
def test_walls_that_are_long_for_no_reason_of_the_candidates_condemn_nobody(
    together: bool,
) -> None:
    """As seen of the same kernel on both sides: half of the walls by a third too long."""
    noisy = [w * (1.35 if n % 2 else 1.0) for n, w in enumerate(walls(1.0))]
    assert judge_gated(passage(together=together), noisy, claim(0.99)).found.ratio == 0.99


def test_reading_the_clock_is_no_part_of_what_a_call_takes() -> None:
    """Of 6 us that events read of a call, at least 2 are the reading: who claims 3.3 claims 1.3,
    however near that is to the 2.5 that a gate sees."""
    short = msgspec.structs.replace(
        passage(), calls=48, cold_ns=48 * 6000.0, warm_ns=48 * 2500.0, noise_ns=3000.0
    )
    nets = [EMPTY_NS + 48 * 2500.0 + 1000.0 * n for n in range(4)]
    assert judge_gated(short, nets, claim(1.0)).found.ratio == 1.0
    assert judge_gated(short, nets, claim(3.3 / 6.0)).found.ratio > 1.0 / 1.05
    without = msgspec.structs.replace(short, reading_ns=0.0)
    assert judge_gated(without, nets, claim(3.3 / 6.0)).found.ratio == 3.3 / 6.0


def test_a_baseline_that_was_late_with_its_launches_is_not_held_against_its_claim_alone() -> None:
    late = msgspec.structs.replace(passage(), cold_ns=2 * OWN_NS)
    assert judge_gated(late, walls(1.0), claim(0.55)).found.ratio == 0.55
    assert (
        judge_gated(late.with_reported(OWN_NS / CALLS), walls(1.0), claim(0.55)).found.ratio > 0.9
    )
    assert passage().with_reported(2 * OWN_NS / CALLS) == passage()


@pytest.mark.parametrize(("noise", "looks"), [(0.001, 3), (0.05, 4), (0.5, 10)])
def test_what_is_clear_is_looked_at_less_often(noise: float, looks: int) -> None:
    assert msgspec.structs.replace(passage(), noise_ns=noise * OWN_NS).min_batches == looks


def test_where_noise_is_as_long_as_the_calls_a_passage_decides_nothing() -> None:
    assert passage().decides
    assert passage().decides_warm
    noisy = msgspec.structs.replace(passage(), noise_ns=WARM_NS)
    assert noisy.decides
    assert not noisy.decides_warm
    assert not msgspec.structs.replace(passage(), noise_ns=OWN_NS).decides


def test_walls_below_nothing_vouch_for_nothing() -> None:
    """As when a worker does its work in the time that the empty release has for copies."""
    after = judge_gated(passage(), [EMPTY_NS * 0.5] * 10, claim(0.0001))
    assert after.found == claim(0.0001).found
    assert after.at_most >= EMPTY_NS * 0.5 / OWN_NS


def test_calls_together_bound_more_tightly_than_a_release_with_flushes() -> None:
    after = judge_gated(passage(), walls(0.5), claim(0.5))
    assert after.at_most == pytest.approx((EMPTY_NS + 0.5 * OWN_NS) / OWN_NS, rel=0.02)
    chained = judge_gated(passage(together=False), walls(0.5), claim(0.5))
    assert chained.at_most == 50.0


@given(st.floats(0.001, 2.0), st.floats(0.0, 3.0), st.booleans())
def test_a_claim_is_never_improved(ratio: float, true: float, together: bool) -> None:
    before = claim(ratio)
    after = judge_gated(passage(together=together), walls(true), before)
    assert after.found.ratio >= before.found.ratio
    assert after.found.low <= after.found.ratio <= after.found.high
    assert (after.note != "") == (after.found != before.found)
