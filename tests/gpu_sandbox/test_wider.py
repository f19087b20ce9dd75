"""A run in float64 stays one where the reference casts to less, and says that it would have."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from gpu_sandbox.child.cases import Case
from gpu_sandbox.child.exact import Exact
from gpu_sandbox.child.expected import expect
from gpu_sandbox.child.wider import Wider

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "cast",
    [
        lambda t: t.bfloat16(),
        lambda t: t.half(),
        lambda t: t.float(),
        lambda t: t.to(torch.bfloat16),
        lambda t: t.to(dtype=torch.float16),
        lambda t: t.to("cpu", torch.float32),
        lambda t: t.type(torch.bfloat16),
    ],
)
def test_what_is_cast_keeps_its_digits(cast: Callable[[torch.Tensor], torch.Tensor]) -> None:
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    with Wider(CPU):
        found = cast(third)
    assert found.dtype == torch.float64
    assert torch.equal(found, third)


def test_a_cast_is_a_copy_and_no_cast_is_none() -> None:
    values = torch.ones(3, dtype=torch.float64)
    with Wider(CPU):
        values.float().mul_(2)
        same = values.to(values.dtype)
    assert values.tolist() == [1.0, 1.0, 1.0]
    assert same is values


def test_a_module_that_is_cast_keeps_its_weights() -> None:
    layer = torch.nn.Linear(3, 3).double()
    before = layer.weight.clone()
    with Wider(CPU):
        layer.bfloat16()
    assert torch.equal(layer.weight, before)


def test_complex_numbers_stay_wide_too() -> None:
    values = torch.full((2,), 1j / 3, dtype=torch.complex128)
    with Wider(CPU):
        assert values.cfloat().dtype == values.to(torch.complex64).dtype == torch.complex128


def test_integers_and_eight_bits_are_what_was_asked_for() -> None:
    values = torch.full((2,), 1.3, dtype=torch.float64)
    with Wider(CPU):
        assert values.to(torch.int32).tolist() == [1, 1]
        assert values.to(torch.float8_e4m3fn).double().tolist() == [1.25, 1.25]


@pytest.mark.parametrize(
    ("computed", "lowers"),
    [
        (lambda t: t.float(), False),
        (lambda t: t + 1, False),
        (lambda t: t.bfloat16(), True),
        (lambda t: t.to(torch.float16), True),
        (lambda t: (t > 0).half(), False),  # ones and zeros lose nothing
    ],
)
def test_it_says_what_would_have_been_rounded(
    computed: Callable[[torch.Tensor], torch.Tensor], lowers: bool
) -> None:
    wider = Wider(CPU)
    with wider:
        computed(torch.ones(2, dtype=torch.float64))
    assert wider.lowers is lowers


@pytest.mark.parametrize("enabled", [False, True])
def test_autocast_would_have_rounded(enabled: bool) -> None:
    wider = Wider(CPU)
    values = torch.eye(2, dtype=torch.float64)
    with wider, torch.autocast("cpu", torch.bfloat16, enabled=enabled):
        assert (values @ values).dtype == torch.float64
    assert wider.lowers is enabled


class Split(torch.nn.Module):
    """Adds what bfloat16 leaves of a number, which is nothing if it leaves all of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = x.bfloat16()
        return high.float() + (x - high.float())


class Bits(torch.nn.Module):
    """Rounds by hand, on the bits of float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.float().view(torch.int32) & -65536).view(torch.float32).reshape(x.shape)


def _run(model: torch.nn.Module, arguments: list[torch.Tensor], _: Case) -> list[torch.Tensor]:
    return [model(*arguments)]


def _exact(model: torch.nn.Module) -> tuple[Exact, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    given = torch.randn(64)
    exact = Exact(model, CPU, "float32")
    truth, _ = exact.outputs(Case([given], None, [given], 0), _run)
    assert truth is not None
    return exact, given, truth[0]


def test_a_number_in_two_parts_is_that_number() -> None:
    exact, given, truth = _exact(Split())
    assert torch.equal(truth, given.double())
    assert exact.lowers


def test_who_looks_at_bits_gets_them() -> None:
    """Of float64 there would be twice as many integers: that fails, and goes the other way."""
    exact, given, truth = _exact(Bits())
    assert torch.equal(truth, Bits()(given))
    assert not exact.lowers


@pytest.mark.parametrize(("lowers", "tolerance"), [(False, 1e-4), (True, 1e-2)])
def test_an_output_is_held_to_the_error_of_what_made_it(lowers: bool, tolerance: float) -> None:
    """Off by 2e-3 a run in float32 is something else, one in bfloat16 is not."""
    torch.manual_seed(0)
    truth = torch.randn(4096, dtype=torch.float64)
    native = truth.bfloat16().float()
    (expected,) = expect([native], [truth], lowers=lowers)
    assert expected.tolerance == pytest.approx(tolerance)
    assert expected.unsound is not lowers


def test_what_is_off_by_less_is_held_to_that() -> None:
    torch.manual_seed(0)
    truth = torch.randn(4096, dtype=torch.float64)
    native = (truth + truth.mean() * 1e-4).float()
    (expected,) = expect([native], [truth], lowers=True)
    assert expected.tolerance < 1e-4
