"""Large constants beside which nothing else would count."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.fill_value import fill_value_of, without_fill
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENTS
from gpu_sandbox.verifier.numerics.rules.error_quantiles import QUANTILES
from gpu_sandbox.verifier.reference.ulp_perturbation import UlpSensitivity
from tests.thorough import examples

STRICT = protocol_named("strict")


def _masked(fill: float, dtype: torch.dtype, *, added: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of a causal attention and their float64 run."""
    torch.manual_seed(0)
    scores = torch.randn(4, 64, 64, dtype=torch.float64)
    mask = torch.ones(64, 64, dtype=torch.bool).triu(1)
    exact = scores + fill * mask if added else scores.masked_fill(mask, fill)
    return exact.to(dtype), exact


@pytest.mark.parametrize("fill", [-1e9, -1e4, 3e4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("added", [True, False])
def test_what_lies_beside_it_is_to_be_there(fill: float, dtype: torch.dtype, added: bool) -> None:
    if abs(fill) > 65504 and dtype == torch.float16:
        return
    if added and abs(fill) < 1e5 and dtype == torch.float32:
        return  # what is added to it is still there: it is no constant
    native, exact = _masked(fill, dtype, added=added)
    (expected,) = expect([native], [exact])
    assert expected.fill is not None
    assert compare(expected, native, STRICT).ok
    later = Expected.within(native.clone(), expected.margin)
    assert compare(later, native, STRICT).ok
    there = exact.abs() < abs(fill) / 2
    for one in (expected, later):
        assert not compare(one, native.masked_fill(there, 0), STRICT).ok
        assert not compare(one, torch.where(there, -native, native), STRICT).ok


def test_it_is_to_be_where_it_belongs() -> None:
    native, exact = _masked(-1e9, torch.float32, added=False)
    (expected,) = expect([native], [exact])
    assert compare(expected, native * (1 + 1e-5), STRICT).ok
    for wrong in (native * 1.01, native.clamp(min=-1e8), native.masked_fill(native < -1e8, 0.0)):
        assert not compare(expected, wrong, STRICT).ok
    some = native.clone()
    some[0, 3, 2] = -1e9
    assert not compare(expected, some, STRICT).ok


@pytest.mark.parametrize(
    "output",
    [
        torch.randn(4096),
        torch.zeros(4096),
        torch.ones(4096),
        torch.relu(torch.randn(4096)),
        torch.randn(4096).clamp(-1, 1),
        torch.arange(4096),
        torch.full((255,), 1e9),
        torch.full((4096,), torch.inf),
        torch.randn(4096, dtype=torch.complex64),
    ],
)
def test_most_outputs_have_none(output: torch.Tensor) -> None:
    assert fill_value_of(output) is None or bool((output == output[0]).all())


@given(st.integers(0, 10**6), st.sampled_from([1e3, 1e6, 1e9]), st.booleans())
@settings(max_examples=examples(30), deadline=None)
def test_another_right_way_is_as_right(seed: int, fill: float, negative: bool) -> None:
    torch.manual_seed(seed)
    exact = torch.randn(32, 64, dtype=torch.float64)
    exact[torch.rand(32, 64) < 0.4] = -fill if negative else fill
    native = (exact * (1 + 1e-7 * torch.randn_like(exact))).float()
    got = (exact * (1 + 1e-7 * torch.randn_like(exact))).float()
    (expected,) = expect([native], [exact])
    assert compare(expected, got, STRICT).ok
    assert compare(Expected.within(native, expected.margin), got, STRICT).ok


def test_the_least_that_there_is_is_another_number_in_float64() -> None:
    torch.manual_seed(0)
    scores = torch.randn(64, 64, dtype=torch.float64)
    later = torch.ones(64, 64, dtype=torch.bool).triu(1)
    native = scores.float().masked_fill(later, torch.finfo(torch.float32).min)
    (expected,) = expect([native], [scores.masked_fill(later, torch.finfo(torch.float64).min)])
    assert not expected.is_unsound
    assert compare(expected, native, STRICT).ok
    assert not compare(expected, native.masked_fill(~later, 0.0), STRICT).ok
    assert not compare(expected, native.masked_fill(later, -1e9), STRICT).ok


def test_of_few_others_there_is_none() -> None:
    """Where nearly all is clamped, say."""
    output = torch.full((4096,), 6.0)
    output[:200] = 1.0
    assert fill_value_of(output) is None
    output[:400] = 1.0
    assert fill_value_of(output) == 6.0


STEADY, UNSTEADY, UNKNOWN = (
    UlpSensitivity(1e-7, measured=True),
    UlpSensitivity(0.7, measured=True),
    UlpSensitivity(),
)


@pytest.mark.parametrize("sensitivity", [UNSTEADY, UNKNOWN])
@pytest.mark.parametrize("in_float64", [True, False])
def test_what_is_rounding_beside_ones_is_not_held_to_itself(
    sensitivity: UlpSensitivity, *, in_float64: bool
) -> None:
    """A matrix times its inverse."""
    torch.manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(64, 64, dtype=torch.float64))
    exact, native = q.T @ q, q.T.float() @ q.float()
    (expected,) = expect([native], [exact] if in_float64 else None, use_own_run=True)
    sensitivity.allow(expected)
    assert expected.fill is None
    assert not expected.is_unsound
    for right in (torch.eye(64), exact.float()) if in_float64 else (native,):
        assert compare(expected, right, STRICT).ok
        assert compare(Expected.within(native, expected.margin), right, STRICT).ok


def test_on_changed_inputs_as_much_more_is_allowed_as_without_a_doubtful_fill() -> None:
    torch.manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(64, 64, dtype=torch.float64))
    exact, native = q.T @ q, q.T.float() @ q.float()
    drawn, changed = (expect([native], [exact], factor=ease)[0] for ease in (1.0, 4.0))
    for one in (drawn, changed):
        assert one.fill is not None
        UNKNOWN.allow(one)
        assert one.fill is None
    assert changed.tolerance == 4 * drawn.tolerance
    assert changed.bounds[ELEMENTS].max_error == 4 * drawn.bounds[ELEMENTS].max_error
    assert QUANTILES not in changed.bounds
    assert drawn.full_check
    assert not changed.full_check


@pytest.mark.parametrize("drawn", [True, False])
def test_beside_it_is_what_the_reference_itself_makes_where_nothing_else_tells(
    *, drawn: bool
) -> None:
    """There is no float64 run, or it draws other numbers."""
    torch.manual_seed(0)
    scores, mask = torch.randn(64, 2048, dtype=torch.float64), torch.rand(64, 2048) < 0.7
    native, another = (
        (scores + noise).masked_fill(mask, -1e9) for noise in torch.randn(2, 64, 2048).double()
    )
    (expected,) = expect([native.float()], [another] if drawn else None, use_own_run=True)
    STEADY.allow(expected)
    assert expected.fill == 1e9
    got = native.float() + 1e-6 * torch.randn(64, 2048) * ~mask
    for one in (expected, Expected.within(native.float(), expected.margin)):
        assert compare(one, got, STRICT).ok
        assert not compare(one, native.float() * mask, STRICT).ok
        assert not compare(one, got * 1.001, STRICT).ok


def test_one_number_in_each_row_is_enough() -> None:
    torch.manual_seed(0)
    exact = torch.randn(512, 512, dtype=torch.float64).fill_diagonal_(-1e9)
    (expected,) = expect([exact.float()], [exact])
    got = exact.float()
    got[:, 470:] = torch.where(got[:, 470:] < -1e8, got[:, 470:], 0.0)
    assert compare(expected, exact.float(), STRICT).ok
    assert not compare(expected, got, STRICT).ok


def test_where_the_largest_is_nothing_lies_beside_it() -> None:
    assert fill_value_of(torch.eye(64).repeat(4, 1)) is None


def test_of_an_output_without_it_nothing_is_taken() -> None:
    native = torch.tensor([1.0, 5.0, -1e9])
    near, far = without_fill(1e9, native, [native * 1.001, -native])
    assert near.tolist() == pytest.approx([1.001, 5.005, 0.0])
    assert far.tolist() == pytest.approx([-1.0, -5.0, 2e9])
