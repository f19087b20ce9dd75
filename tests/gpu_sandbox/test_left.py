"""What a call leaves of its inputs, where the reference changes them."""

from __future__ import annotations

import pytest
import torch

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.verifier.numerics.mutated_inputs import expect_mutated
from gpu_sandbox.verifier.trials.checks import check_mutated
from gpu_sandbox.verifier.worker_link.requests import Ended

STRICT = protocol_named("strict")
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]


def is_right(before: torch.Tensor, after: torch.Tensor, got: torch.Tensor) -> bool:
    try:
        check_mutated([expect_mutated(after, before)], [got], STRICT, None)
    except Ended:
        return False
    return True


def averaged(dtype: torch.dtype, steps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A moving average before and after a step that moves it by so many last places, and after the
    same step written otherwise."""
    real = dtype.to_real() if dtype.is_complex else dtype
    by = steps * torch.finfo(real).eps
    before, other = torch.randn(40, 90, dtype=dtype), torch.randn(40, 90, dtype=dtype)
    after = before.double() if not dtype.is_complex else before.to(torch.complex128)
    after = (after + by * (other - before)).to(dtype)
    return before, after, (before * (1 - by) + other * by).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps", [0.1, 1.0, 3.0, 6.0, 20.0, 1000.0])
def test_a_step_may_be_written_otherwise(dtype: torch.dtype, steps: float) -> None:
    for _ in range(10):
        before, after, otherwise = averaged(dtype, min(steps, 0.1 / torch.finfo(dtype).eps))
        assert is_right(before, after, after)
        assert is_right(before, after, otherwise)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.5, -1.0])
def test_a_step_is_made_though_rounding_allows_for_as_much(
    dtype: torch.dtype, share: float
) -> None:
    before, after, _ = averaged(dtype, 6.0)
    got = (before + share * (after - before)).to(dtype)
    assert not is_right(before, after, got)


def test_a_step_below_rounding_may_be_none() -> None:
    before, after, _ = averaged(torch.float32, 0.5)
    assert is_right(before, after, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [50.0, 1000.0])
def test_a_guess_goes_as_far_and_elsewhere(dtype: torch.dtype, steps: float) -> None:
    """By a part of what makes a step: its direction as a whole is right."""
    by = steps * torch.finfo(dtype).eps
    before, step = torch.randn(40, 90, dtype=dtype), torch.randn(40, 90, dtype=dtype)
    guess = step + 0.15 * torch.randn(40, 90, dtype=dtype)
    assert is_right(before, before + by * step, before + by * step)
    assert not is_right(before, before + by * step, before + by * guess)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_rounded_often_may_be_in_another_order(dtype: torch.dtype) -> None:
    before = torch.randn(40, 90, dtype=dtype)
    adds = 1e-2 * torch.finfo(dtype).eps * torch.randn(16, 40, 90, dtype=dtype)
    one, other, size = before.clone(), before.clone(), 300 * torch.finfo(dtype).eps
    for add in adds:
        one += size + add
    for add in adds.flip(0):
        other += size + add
    assert is_right(before, one, other)
    assert is_right(before, one, before + (size + adds).sum(0))


def test_a_norm_that_it_is_divided_by_is_off_as_a_whole() -> None:
    before = torch.randn(400, 90)
    after = before / before.norm() * (1 + 1e-3) * before.norm()
    assert is_right(before, after, after * (1 + 1.2e-6))
    assert not is_right(before, after, after * (1 + 4e-6))
