"""Most elements are held to what they are themselves, whatever the largest are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.verifier.numerics.compare import Difference, compare
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.fast_path import surely_right_errors
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENTS
from gpu_sandbox.verifier.numerics.rules.error_quantiles import QUANTILES, quantiles_between
from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES
from gpu_sandbox.verifier.reference.ulp_perturbation import UlpSensitivity
from tests.thorough import examples

STRICT = protocol_named("strict")
LARGE = 1e6
TOLD = "of elements are off"


def judged(
    exact: torch.Tensor, native: torch.Tensor, got: torch.Tensor, *, timed: bool = False
) -> Difference:
    """In a trial, or in a call that is timed, of which there is no float64 run."""
    (expected,) = expect([native], [exact])
    if timed:
        expected = Expected.within(native, expected.margin)
    found = compare(expected, got, STRICT)
    assert found.ok or surely_right_errors([(expected, got)]) == [None]
    return found


def with_a_few_large(seed: int, rows: int = 500) -> tuple[torch.Tensor, torch.Tensor]:
    """In float64, and as a reference in float32 is off by its own rounding."""
    torch.manual_seed(seed)
    exact = torch.randn(rows, 3, dtype=torch.float64)
    exact[::100] *= LARGE
    return exact, (exact * (1 + 1e-7 * torch.randn_like(exact))).float()


@pytest.mark.parametrize("timed", [False, True], ids=["trial", "timed"])
@pytest.mark.parametrize(
    ("off", "share", "right"),
    [
        (0.3, 1.0, False),
        (0.3, 0.2, False),
        (0.3, 0.01, True),  # a few: as far as the reference itself, where it is furthest
        (5e-4, 1.0, False),
        (5e-4, 0.3, True),
        (3e-5, 1.0, True),
    ],
)
def test_a_few_large_numbers_excuse_no_others(
    off: float, share: float, right: bool, timed: bool
) -> None:
    exact, native = with_a_few_large(0)
    wrong = torch.rand(exact.shape) < share
    wrong[::100] = False
    got = torch.where(wrong, native * (1 + off), native)
    found = judged(exact, native, got, timed=timed)
    assert found.ok is right, found.reason


@given(st.integers(0, 10_000), st.sampled_from([1.0, 2.0, 4.0]), st.floats(0.0, 4.0))
@settings(max_examples=examples(30), deadline=None)
def test_as_far_as_the_reference_itself_is_right(seed: int, times: float, wide: float) -> None:
    """Wherever that is, and however unlike in size the numbers are."""
    torch.manual_seed(seed)
    exact = torch.randn(400, 7, dtype=torch.float64) * (wide * torch.randn(400, 1).double()).exp()
    own = 1e-5 * torch.randn(400, 1).double().exp()
    native = (exact * (1 + own * torch.randn_like(exact))).float()
    got = (exact * (1 + times * own * torch.randn_like(exact))).float()
    assert TOLD not in judged(exact, native, got).reason  # the norm goes by a few, maybe
    assert TOLD not in judged(exact, native, got, timed=True).reason


def test_one_large_matrix_does_not_let_the_others_be_solved_in_half_precision() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(256, 32, 32) + 4 * torch.eye(32), torch.randn(256, 32, 4)
    right[7] *= 100 * LARGE
    exact = torch.linalg.solve(left.double(), right.double())
    native = torch.linalg.solve(left, right)
    assert judged(exact, native, torch.linalg.inv(left) @ right).ok
    got = torch.linalg.solve(left.half().float(), right)
    got[7] = native[7]
    assert not judged(exact, native, got).ok


def test_zeros_and_next_to_nothing_do_not_count() -> None:
    """Of a clamp, say, or of what underflows."""
    torch.manual_seed(0)
    exact = torch.randn(100, 100, dtype=torch.float64).clamp(min=0.0)
    native = exact.float()
    got = torch.where(native == 0, 1e-9, native)
    assert judged(exact, native, got).ok
    tiny = torch.where(torch.rand_like(exact) < 0.4, exact * 1e-5, exact)
    assert judged(tiny, tiny.float(), tiny.float() + 1e-8).ok


def test_what_moves_by_rounding_may_be_as_far_off() -> None:
    exact, native = with_a_few_large(1)
    got = torch.where(native.abs() < 100, native * 1.0005, native)
    moved = native * (1 + 3e-4 * torch.randn_like(native))
    (expected,) = expect([native], [exact])
    assert not compare(expected, got, STRICT).ok
    UlpSensitivity(
        relative=3e-4,
        rounds=True,
        spreads={QUANTILES: quantiles_between(native, moved), ELEMENTS: 1.0},
    ).allow(expected)
    assert compare(expected, got, STRICT).ok


def test_changed_inputs_and_few_elements_are_held_to_norms_alone() -> None:
    exact, native = with_a_few_large(2)
    (eased,) = expect([native], [exact], factor=2.0)
    (few,) = expect([native[:50]], [exact[:50]])
    assert QUANTILES not in eased.bounds
    assert QUANTILES not in few.bounds


def test_parts_of_complex_numbers_count_each() -> None:
    exact, native = with_a_few_large(3)
    turned = torch.complex(exact, exact.flip(0)), torch.complex(native, native.flip(0))
    got = turned[1].clone()
    got.imag *= torch.where(got.imag.abs() < 100, 1.1, 1.0)
    assert judged(*turned, turned[1]).ok
    assert not judged(*turned, got).ok


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("timed", [False, True], ids=["trial", "timed"])
def test_half_precision_is_a_few_last_places_of_most(dtype: torch.dtype, timed: bool) -> None:
    torch.manual_seed(4)
    exact = torch.randn(400, 64, dtype=torch.float64)
    exact[::100] *= 1000
    native, small = exact.to(dtype), torch.ones(400, 1, dtype=torch.float64)
    small[::100] = 0.0
    floor = TOLERANCES[dtype].floor
    spread = exact + small * floor * 0.9 * torch.randn_like(exact)
    assert judged(exact, native, spread.to(dtype), timed=timed).ok
    for off, share in ((4.0, 0.8), (20.0, 0.2)):
        hit = small * (torch.rand_like(exact) < share)
        got = (exact * (1 + hit * off * floor)).to(dtype)
        assert TOLD in judged(exact, native, got, timed=timed).reason
