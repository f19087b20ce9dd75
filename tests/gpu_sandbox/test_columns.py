"""Columns of outputs that are wrong as a whole, however little they are of all."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.child.columns import flipped, lost
from gpu_sandbox.child.compare import compare
from gpu_sandbox.child.expected import Expected, expect
from gpu_sandbox.child.nudges import Nudged
from gpu_sandbox.protocols import protocol_named

STRICT = protocol_named("strict")
DTYPES = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_of_thousands_that_is_left_out(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    exact = torch.randn(4, 8, 30000, dtype=torch.float64)
    native = exact.to(dtype)
    (expected,) = expect([native], [exact])
    assert compare(expected, native, STRICT).ok
    got = native.clone()
    got[..., 4321] = 0
    found = compare(expected, got, STRICT)
    assert not found.ok
    if dtype == torch.bfloat16:  # the norm is closer in others
        assert "4321" in found.reason


@given(st.integers(0, 10**6), st.sampled_from(DTYPES), st.integers(16, 40), st.integers(2, 60))
@settings(max_examples=40, deadline=None)
def test_as_far_off_as_the_reference_is_none_lost(
    seed: int, dtype: torch.dtype, rows: int, columns: int
) -> None:
    """Also where columns are next to nothing beside others, or what is left of them."""
    torch.manual_seed(seed)
    exact = torch.randn(rows, columns, dtype=torch.float64) * torch.randn(columns).exp().square()
    off = 4 * torch.finfo(dtype).eps * exact.norm(dim=1, keepdim=True)
    native, got = ((exact + off * torch.randn_like(exact)).to(dtype) for _ in range(2))
    assert lost(exact, native, got) == []


def test_what_is_small_beside_others_does_not_count() -> None:
    exact = torch.randn(100, 50, dtype=torch.float64)
    exact[:, 7] *= 0.01
    got = exact.clone()
    got[:, 7] = 0
    assert lost(exact, exact, got) == []
    assert lost(exact[:15], exact[:15], torch.zeros(15, 50)) == []


def test_of_integers_as_many_as_may_flip_but_in_one_column() -> None:
    torch.manual_seed(0)
    native = torch.randint(0, 100, (200, 2000), dtype=torch.int16)
    column, scattered = native.clone(), native.clone()
    column[:, 77] = 100
    scattered.view(-1)[torch.randperm(native.numel())[:200]] += 1
    expected = Expected(native, None)
    Nudged(flips=300, rounds=True).allow(expected)
    assert flipped(native, column) == [77]
    assert compare(expected, scattered, STRICT).ok
    assert not compare(expected, column, STRICT).ok
