"""Columns of outputs that are wrong as a whole, however little they are of all."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.rules.integers import INTEGERS, is_clustered
from gpu_sandbox.verifier.numerics.rules.slices import (
    missing_in_one_dimension,
    missing_slices,
    sound_slices,
)
from gpu_sandbox.verifier.reference.ulp_perturbation import UlpSensitivity
from tests.thorough import examples

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
@settings(max_examples=examples(40), deadline=None)
def test_as_far_off_as_the_reference_is_none_lost(
    seed: int, dtype: torch.dtype, rows: int, columns: int
) -> None:
    """Also where columns are next to nothing beside others, or what is left of them."""
    torch.manual_seed(seed)
    exact = torch.randn(rows, columns, dtype=torch.float64) * torch.randn(columns).exp().square()
    off = 4 * torch.finfo(dtype).eps * exact.norm(dim=1, keepdim=True)
    native, got = ((exact + off * torch.randn_like(exact)).to(dtype) for _ in range(2))
    assert missing_slices(exact, native, got) == []


@given(st.integers(0, 10**6), st.sampled_from(DTYPES), st.integers(16, 40), st.integers(2, 60))
@settings(max_examples=examples(40), deadline=None)
def test_beside_another_run_of_the_reference_none_of_those_that_are_sound_is_lost(
    seed: int, dtype: torch.dtype, rows: int, columns: int
) -> None:
    torch.manual_seed(seed)
    sizes = torch.randn(columns).exp().square()

    def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        exact = torch.randn(rows, columns, dtype=torch.float64) * sizes
        off = 2 * torch.finfo(dtype).eps * exact.norm(dim=1, keepdim=True)
        native, got = ((exact + off * torch.randn_like(exact)).to(dtype) for _ in range(2))
        return exact, native, got

    exact, native, _ = drawn()
    among = sound_slices(exact, native)
    assert among is not None
    for dimension in (0, 1):
        less = native * torch.ones(native.shape).index_fill_(dimension, torch.tensor(1), 0.45)
        looked_at = among.those[dimension] is not None
        if looked_at and missing_slices(native, native, less, among, only=dimension):
            assert (less - native).double().norm() > among.min_error * native.double().norm()
    _, native, got = drawn()
    assert missing_slices(native, native, got, among) == []
    largest, last = int(sizes.argmax()), among.those[1]
    assert last is not None
    got[:, largest] = 0
    assert missing_slices(native, native, got, among, only=1) == (
        [(1, largest)] if last[largest] else []
    )


@pytest.mark.parametrize("shape", [(20, 50_000), (300_000, 3)])
def test_some_rows_are_enough_to_see_it(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    exact = torch.randn(shape, dtype=torch.float64)
    native = exact.float()
    among = sound_slices(exact, native)
    assert among is not None
    last = among.those[1]
    assert last is not None
    assert last.all()
    got = native.clone()
    assert missing_in_one_dimension(native, got, among) == []
    got[:, 2] = 0
    assert missing_slices(native, native, got, among, only=1) == [(1, 2)]
    last[2] = False
    assert missing_slices(native, native, got, among, only=1) == []


@pytest.mark.parametrize("shape", [(64, 16_384), (256, 40_000)])
def test_of_many_columns_half_of_the_numbers_may_be_zero(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    exact = torch.relu(torch.randn(shape, dtype=torch.float64))
    native = exact.bfloat16()
    among = sound_slices(exact, native)
    assert among is not None
    those = among.those[1]
    assert those is not None
    assert float(those.double().mean()) > 0.99
    column = int(those.nonzero()[7])
    got = native.clone()
    got[:, column] *= 0.25
    assert missing_slices(native, native, got, among, only=1) == [(1, column)]


def test_of_those_that_are_too_many_none_is_looked_at() -> None:
    exact = torch.ones(1, dtype=torch.float64).expand(16, (1 << 22) + 1)
    among = sound_slices(exact, exact)
    assert among is not None
    assert among.those[0] is not None
    assert among.those[1] is None


def test_where_no_column_counts_none_need_be_looked_for() -> None:
    exact = torch.zeros(64, 32, dtype=torch.float64)
    among = sound_slices(exact, exact.float())
    assert among is not None
    assert among.min_error == math.inf


def test_of_large_outputs_some_rows_are_looked_at() -> None:
    exact = torch.ones(1, dtype=torch.float64).expand((1 << 13) + 1, 1 << 11)
    got = exact.clone()
    assert missing_slices(exact, exact, got) == []
    got[:, 5] = 0
    assert missing_slices(exact, exact, got) == [(1, 5)]
    assert missing_slices(exact[:, :0], exact[:, :0], got[:, :0]) == []


@pytest.mark.parametrize("shape", [(4000, 1), (40, 50, 1), (60, 8, 30), (1, 90, 64, 64)])
def test_columns_of_every_dimension(shape: tuple[int, ...]) -> None:
    """What is left out of half precision is one number of each row, or a row, or a channel."""
    torch.manual_seed(0)
    exact = torch.randn(shape, dtype=torch.float64)
    for dimension, size in enumerate(shape):
        if size == 1 or exact.numel() < 16 * size:
            continue
        got = exact.clone()
        got.select(dimension, size // 2).zero_()
        assert missing_slices(exact, exact, got) == [(dimension, size // 2)]
        assert missing_slices(exact, exact, got, only=dimension) == [(dimension, size // 2)]


def test_one_that_nobody_knows_is_looked_at_in_a_timed_call() -> None:
    exact = torch.randn(60, 70)
    among = sound_slices(exact, exact)
    assert among is not None
    got = exact.clone()
    got[7] = 0
    assert (got - exact).norm() > among.min_error * exact.norm()
    looks = [missing_in_one_dimension(exact, got, among) for _ in range(200)]
    assert [(0, 7)] in looks
    assert [] in looks


def test_what_is_small_beside_others_does_not_count() -> None:
    exact = torch.randn(100, 50, dtype=torch.float64)
    exact[:, 7] *= 0.01
    got = exact.clone()
    got[:, 7] = 0
    assert missing_slices(exact, exact, got) == []
    few = exact[:15, :15]
    assert missing_slices(few, few, torch.zeros(15, 15)) == []


def test_of_integers_as_many_as_may_flip_but_in_one_column() -> None:
    torch.manual_seed(0)
    native = torch.randint(0, 100, (200, 2000), dtype=torch.int16)
    column, half, row, stretch, scattered = (native.clone() for _ in range(5))
    column[:, 77] = 100
    half[::2, 77] = 100
    row[9, :200] = 100
    stretch[9, 70:100] = 100
    scattered.view(-1)[torch.randperm(native.numel())[:200]] += 1
    expected = Expected(native, None)
    UlpSensitivity(rounds=True, spreads={INTEGERS: 300}).allow(expected)
    assert compare(expected, scattered, STRICT).ok
    for wrong in (column, half, row, stretch):
        assert is_clustered(native, wrong)
        assert not compare(expected, wrong, STRICT).ok


@given(st.integers(0, 10**6), st.integers(1, 200_000), st.sampled_from([1, 2, 8, 64]))
@settings(max_examples=examples(40), deadline=None)
def test_what_rounding_flips_here_and_there_is_no_column(
    seed: int, elements: int, columns: int
) -> None:
    torch.manual_seed(seed)
    native = torch.randint(0, 100, (elements, columns))
    got = native.clone()
    got.view(-1)[torch.randperm(native.numel())[: native.numel() // 1000]] += 1
    assert not is_clustered(native, got)


def test_what_is_nothing_in_float64_is_no_column() -> None:
    """What is left of constants that were normalized is rounding, or zero in half precision."""
    torch.manual_seed(0)
    exact = 1e-14 * torch.randn(64, 64, dtype=torch.float64)
    exact[:8] = torch.randn(8, 64, dtype=torch.float64)
    native = exact.half().masked_fill(exact.abs() < 1e-9, 0.0)
    (expected,) = expect([native], [exact])
    assert compare(expected, native, STRICT).ok
    got = native + 1e-5 * torch.randn(64, 64).half() * (native == 0)
    assert compare(expected, got, STRICT).ok


def test_nor_what_flushes_to_zero() -> None:
    exact = torch.rand(64, 64, dtype=torch.float64) + 0.5
    exact[:, 20:] *= 1e-39
    native = exact.float()
    assert missing_slices(exact, native, native.masked_fill(native < 1e-37, 0.0)) == []


def test_of_one_in_a_row_of_zeros_rounding_makes_another_row() -> None:
    native = torch.eye(32).repeat(32, 1)
    got = native.clone()
    got[5] = got[6]
    assert missing_slices(native.double(), native, got) == []


def test_what_varies_is_to_vary() -> None:
    """Half of all is near to what lies between zero and one."""
    torch.manual_seed(0)
    exact = torch.cat([torch.randn(32, 4096), torch.rand(32, 1)], dim=1).double()
    native = exact.bfloat16()
    (expected,) = expect([native], [exact])
    got = native.clone()
    got[:, -1] = 0.5
    assert compare(expected, native, STRICT).ok
    assert "4096" in compare(expected, got, STRICT).reason
    level = exact.clone()
    level[:, -1] = 0.5 + 0.01 * torch.randn(32)
    (expected,) = expect([level.bfloat16()], [level])
    assert compare(expected, got, STRICT).ok
