"""What an element may be off by, beside its row and a typical one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENTS
from gpu_sandbox.verifier.reference.output_scale import UsualRms
from tests.thorough import examples

STRICT = protocol_named("strict")


@pytest.mark.parametrize(
    ("row", "error", "right"),
    [
        (5, 5e-5, True),  # where nearly all is zero, as much as may be anywhere
        (5, 5e-4, False),
        (6, 5e-4, True),  # 50 tolerances of what is there
        (6, 5e-2, False),
    ],
)
def test_an_element(row: int, error: float, right: bool) -> None:
    torch.manual_seed(0)
    native = torch.rand(400, 31)
    native[5] *= 1e-5
    got = native.clone()
    got[row, 3] += error
    (expected,) = expect([native], [native.double()])
    found = compare(expected, got, STRICT)
    assert found.ok is right, found
    assert right or "1 of 12400 elements" in found.reason


@given(st.floats(-0.5, 1.0), st.integers(0, 1000), st.sampled_from([1, 7, 31, 400]))
@settings(max_examples=examples(12), deadline=None)
def test_an_evenly_spread_error_within_the_tolerance_is_right(
    threshold: float, seed: int, columns: int
) -> None:
    """Also where a clamp left five in six elements nothing."""
    torch.manual_seed(seed)
    native = (torch.randn(5_000, columns) - threshold).clamp(min=0.0)
    (expected,) = expect([native], [native.double()])
    error = torch.randn_like(native)
    error *= 0.9 * expected.tolerance * native.norm() / error.norm()
    found = compare(expected, native + error, STRICT)
    assert found.ok, found.reason


def test_small_rows_are_not_left_out_beside_large_ones() -> None:
    """A few rows that are a thousand times larger make no room for errors in the others."""
    torch.manual_seed(0)
    native = torch.rand(400, 31)
    native[::100] *= 1000
    (expected,) = expect([native], [native.double()])
    got = native.clone()
    got[7] *= 1.005
    assert not compare(expected, got, STRICT).ok


def dot(number: int, size: int = 20_000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A product in float32, in float64, and by other sums."""
    draw = torch.Generator().manual_seed(number)
    a, b = (torch.randn(size, generator=draw) for _ in "ab")
    return torch.dot(a, b), torch.dot(a.double(), b.double()), (a * b).view(100, -1).sum(1).sum()


@given(st.integers(0, 10**9))
@settings(max_examples=examples(15), deadline=None)
def test_a_number_that_comes_out_small_is_as_exact_as_it_usually_is(seed: int) -> None:
    known = UsualRms()
    first, truth, _ = dot(seed)
    typical = known.of("", [first], lambda number: [dot(seed + 1 + number)[0]])
    (expected,) = expect([first], [truth], usual_rms=typical)
    for number in range(20, 30):
        native, truth, other = dot(seed + number)
        trial = Expected(native, truth, usual_rms=typical[0])
        timed = Expected.within(native, expected.margin)
        for one in (trial, timed):
            assert compare(one, other, STRICT).ok
            assert not compare(one, other + 1e-3 * expected.min_norm, STRICT).ok


def test_what_has_many_elements_has_its_own_size() -> None:
    outputs = [torch.rand(65), torch.arange(4), torch.rand(4, 16), torch.rand(0), torch.tensor(2.0)]
    found = UsualRms().of("", outputs, lambda _: [t + 1 for t in outputs])
    assert [None if one is None else list(one.shape) for one in found] == [
        None, None, [4, 1], None, [1, 1],
    ]  # fmt: skip
    assert found[4] is not None
    assert float(found[4]) == pytest.approx(((4 + 8 * 9) / 9) ** 0.5)


@pytest.mark.parametrize(
    ("dtype", "error", "times"),
    [
        (torch.float32, 1e-5, 2.0),
        (torch.float64, 0.0, 2.0),
        (torch.bfloat16, 1e-2, 1.0),
    ],
)
def test_on_changed_inputs_full_precision_has_more_room(
    dtype: torch.dtype, error: float, times: float
) -> None:
    native = torch.full((30, 7), 2.0, dtype=dtype)
    exact = native.double() * (1.0 + error)
    own, changed = (expect([native], [exact], factor=ease)[0] for ease in (1.0, 2.0))
    assert changed.tolerance == pytest.approx(times * own.tolerance)
    bounds = [one.bounds[ELEMENTS].max_error for one in (changed, own)]
    assert bounds[0] == pytest.approx(times * bounds[1])


def test_without_a_float64_reference_there_is_no_more_room() -> None:
    own, changed = (expect([torch.ones(5)], None, factor=ease)[0] for ease in (1.0, 2.0))
    assert own.margin == changed.margin
