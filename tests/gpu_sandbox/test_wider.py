"""A run in float64 stays one where the reference casts to less, and says that it would have."""

from __future__ import annotations

import copy
import unittest.mock
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.ipc.values import Plain
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.rules.error_quantiles import QUANTILES
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.float64_casts import Float64Casts
from gpu_sandbox.verifier.reference.float64_rng import DRAWS
from gpu_sandbox.verifier.reference.float64_run import Float64Run

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
        lambda t: t.type(torch.HalfTensor),
    ],
)
def test_what_is_cast_keeps_its_digits(cast: Callable[[torch.Tensor], torch.Tensor]) -> None:
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    with Float64Casts(CPU):
        found = cast(third)
    assert found.dtype == torch.float64
    assert torch.equal(found, third)


def test_a_cast_is_a_copy_and_no_cast_is_none() -> None:
    values = torch.ones(3, dtype=torch.float64)
    with Float64Casts(CPU):
        values.float().mul_(2)
        same = values.to(values.dtype)
    assert values.tolist() == [1.0, 1.0, 1.0]
    assert same is values


def test_a_module_that_is_cast_keeps_its_weights() -> None:
    layer = torch.nn.Linear(3, 3).double()
    before = layer.weight.clone()
    with Float64Casts(CPU):
        layer.bfloat16()
    assert torch.equal(layer.weight, before)


def test_complex_numbers_stay_wide_too() -> None:
    values = torch.full((2,), 1j / 3, dtype=torch.complex128)
    with Float64Casts(CPU):
        assert values.cfloat().dtype == values.to(torch.complex64).dtype == torch.complex128


def test_integers_and_eight_bits_are_what_was_asked_for() -> None:
    values = torch.full((2,), 1.3, dtype=torch.float64)
    with Float64Casts(CPU):
        assert values.to(torch.int32).tolist() == [1, 1]
        assert values.to(torch.float8_e4m3fn).double().tolist() == [1.25, 1.25]


def test_what_a_forward_makes_is_wide_and_holds_what_it_would() -> None:
    like = torch.ones(2, dtype=torch.float64)
    with Float64Casts(CPU):
        made = [
            torch.zeros(2),
            torch.zeros(2, dtype=torch.bfloat16),
            torch.eye(2, dtype=torch.float16),
            torch.tensor([0.1, 0.2], dtype=torch.bfloat16),
            torch.tensor([0.1, 0.2]),
            torch.linspace(0.0, 1.0, 5),
            torch.zeros_like(like, dtype=torch.float32),
            like.new_full((2,), 0.1, dtype=torch.bfloat16),
            torch.rand(3, dtype=torch.bfloat16),
            torch.hann_window(5),
        ]
        whole = [torch.zeros(2, dtype=torch.int64), torch.arange(3), torch.ones(2).bool()]
    assert {t.dtype for t in made} == {torch.float64}
    assert torch.equal(made[3], torch.tensor([0.1, 0.2], dtype=torch.bfloat16).double())
    assert torch.equal(made[7], torch.full((2,), 0.1, dtype=torch.bfloat16).double())
    assert [t.dtype for t in whole] == [torch.int64, torch.int64, torch.bool]


def test_what_is_summed_in_a_type_by_name_is_summed_in_float64() -> None:
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    with Float64Casts(CPU):
        found = third.sum(dtype=torch.float32), torch.softmax(third, 0, dtype=torch.float32)
    assert [t.dtype for t in found] == [torch.float64] * 2
    assert float(found[0]) == 1.0


@pytest.mark.parametrize(
    ("computed", "lowers"),
    [
        (lambda t: t.float(), False),
        (lambda t: t + 1, False),
        (lambda t: t.bfloat16(), True),
        (lambda t: t.to(torch.float16), True),
        (lambda t: (t > 0).half(), False),  # ones and zeros lose nothing
        (lambda t: t.sum(dtype=torch.float16), True),
        (lambda t: torch.zeros(3, dtype=torch.bfloat16), True),
        (lambda t: torch.zeros(3), False),
    ],
)
def test_it_says_what_would_have_been_rounded(
    computed: Callable[[torch.Tensor], torch.Tensor], lowers: bool
) -> None:
    wider = Float64Casts(CPU)
    with wider:
        computed(torch.ones(2, dtype=torch.float64))
    assert wider.half_precision is lowers


@pytest.mark.parametrize("enabled", [False, True])
def test_autocast_would_have_rounded(enabled: bool) -> None:
    wider = Float64Casts(CPU)
    values = torch.eye(2, dtype=torch.float64)
    with wider, torch.autocast("cpu", torch.bfloat16, enabled=enabled):
        assert (values @ values).dtype == torch.float64
    assert wider.half_precision is enabled


class Split(torch.nn.Module):
    """Adds what bfloat16 leaves of a number, which is nothing if it leaves all of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = x.bfloat16()
        return high.float() + (x - high.float())


class Bits(torch.nn.Module):
    """Rounds by hand, on the bits of bfloat16. Of float64 there are four times as many."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bits = x.bfloat16().view(torch.int16) & -16
        return bits.view(torch.bfloat16).float()


class Fails(Bits):
    """The same, where that many do not fit."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).reshape(x.shape)


class Product(torch.nn.Module):
    """In 16 bits, of what comes in 32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.bfloat16() @ self.weight.bfloat16()).float()


class Held(torch.nn.Module):
    """Its weights are of 16 bits, and no cast says so."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64).bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.to(self.layer.weight.dtype)).to(torch.float32)


class Recurs(torch.nn.Module):
    """Adds to a state of zeros in 16 bits, step by step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.shape[0], dtype=torch.bfloat16)
        for step in x.bfloat16().t():
            state = 0.5 * state + step
        return state.float()


class Gated(Product):
    """A few rows are others if a gate in 16 bits falls on the other side; the rest is exact."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        open_ = super().forward(x)[:, :1] > 0.01
        return torch.where(open_, x, 0.5 * x)


class Counts(Product):
    """Remembers how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1.0
        return super().forward(x) * self.calls


def _run(model: torch.nn.Module, arguments: list[torch.Tensor], case: Case) -> list[torch.Tensor]:
    torch.manual_seed(case.forward_seed)
    with torch.no_grad():
        return [model(*arguments)]


def _exact(
    model: torch.nn.Module, precision: Precision = "float32", rows: int = 256
) -> tuple[Float64Run, torch.Tensor, torch.Tensor | None, list[torch.Tensor] | None]:
    """With its input, and what it made of that: its truth, and that of rounded inputs."""
    torch.manual_seed(0)
    given = torch.randn(rows, 64)
    case = Case([given], Plain(None), [given], 0)
    native = _run(copy.deepcopy(model), [given], case)
    exact = Float64Run(model, CPU, precision)
    truth, rough = exact.outputs(case, _run, native)
    return exact, given, truth and truth[0], rough


def _far(got: torch.Tensor | None, truth: torch.Tensor) -> float:
    assert got is not None
    return float((got - truth).detach().norm() / truth.detach().norm())


def test_a_number_in_two_parts_is_that_number() -> None:
    exact, given, truth, _ = _exact(Split())
    assert truth is not None
    assert torch.equal(truth, given.double())
    assert exact.half_precision


@pytest.mark.parametrize("model", [Bits, Fails])
def test_who_looks_at_bits_gets_them(model: type[torch.nn.Module]) -> None:
    exact, given, truth, _ = _exact(model())
    assert truth is not None
    assert torch.equal(truth, model()(given))
    assert not exact.half_precision


@pytest.mark.parametrize("model", [Product, Held, Recurs])
def test_what_is_made_in_16_bits_is_held_to_all_digits(model: type[torch.nn.Module]) -> None:
    made = model()
    exact, given, truth, _ = _exact(made)
    assert exact.half_precision
    assert truth is not None
    assert truth.dtype == torch.float64
    assert 5e-4 < _far(made(given).double(), truth) < 2e-2


def test_a_gate_on_the_other_side_is_no_rounding() -> None:
    """Where few rows are others, what is nearer to the reference's own run is its truth."""
    made = Gated()
    exact, given, truth, _ = _exact(made, rows=4096)
    assert not exact.half_precision
    assert _far(truth, made(given).double()) < 1e-6


def test_other_numbers_are_no_rounding() -> None:
    def run(model: Any, arguments: list[torch.Tensor], case: Case) -> list[torch.Tensor]:
        (found,) = _run(model, arguments, case)
        noise = torch.randn_like(found)  # in float64 others, as this is outside
        return [found * (1 + 0.01 * noise)]

    made = Product()
    given = torch.randn(256, 64)
    case = Case([given], Plain(None), [given], 0)
    exact = Float64Run(made, CPU, "float32")
    with unittest.mock.patch.dict(DRAWS, clear=True):
        exact.outputs(case, run, run(made, [given], case))
    assert not exact.half_precision
    exact = Float64Run(made, CPU, "float32")
    exact.outputs(case, run, run(made, [given], case))
    assert exact.half_precision


def test_a_model_that_remembers_has_been_called_as_often() -> None:
    exact, given, truth, _ = _exact(Counts())
    assert exact.half_precision
    case = Case([given], Plain(None), [given], 0)
    again, _ = exact.outputs(case, _run)
    assert again is not None
    assert _far(again[0], 2.0 * truth) < 1e-12  # type: ignore[operator]


def test_what_takes_long_in_float64_is_not_run_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_sandbox.verifier.reference.float64_run._SLOWEST_S", 0.0)
    exact, given, truth, _ = _exact(Product())
    assert truth is None
    assert not exact.used
    assert exact.outputs(Case([given], Plain(None), [given], 0), _run) == (None, None)


def test_rounded_inputs_are_run_as_wide() -> None:
    """Or the casts of the reference's own would round them once more."""
    made = Product()
    _, _, truth, rough = _exact(made, "tf32")
    assert rough is not None
    assert truth is not None
    assert rough[0].dtype == torch.float64
    assert 1e-5 < _far(rough[0], truth) < 1e-3


def test_inputs_in_float64_stay_as_they_were() -> None:
    class InPlace(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2.0)

    given = torch.ones(4, dtype=torch.float64)
    case = Case([given], Plain(None), [given], 0)
    Float64Run(InPlace(), CPU, "float32").outputs(case, _run, [2.0 * given])
    assert given.tolist() == [1.0] * 4


@pytest.mark.parametrize(("lowers", "tolerance"), [(False, 1e-4), (True, 6.8e-3)])
def test_an_output_is_held_to_the_error_of_what_made_it(lowers: bool, tolerance: float) -> None:
    """Off by 1.7e-3 a run in float32 is something else, one in bfloat16 is not."""
    torch.manual_seed(0)
    truth = torch.randn(4096, dtype=torch.float64)
    native = truth.bfloat16().float()
    (expected,) = expect([native], [truth], half_precision=lowers)
    assert expected.tolerance == pytest.approx(tolerance, rel=0.05)
    assert expected.is_unsound is not lowers


@pytest.mark.parametrize(
    "native",
    [
        lambda t: t.where(torch.arange(len(t)) % 100 > 0, 1.1 * t).float(),  # some of it
        lambda t: t.bfloat16().double(),  # not in float32
        lambda t: (t * 1.5).float(),  # something else
    ],
    ids=["few", "float64", "far"],
)
def test_what_16_bits_do_not_explain_is_held_to_the_reference_itself(
    native: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    torch.manual_seed(0)
    truth = torch.randn(4096, dtype=torch.float64)
    (expected,) = expect([native(truth)], [truth], half_precision=True)
    assert expected.is_unsound
    assert expected.tolerance <= 1e-4


def _rounded_in_places(every: int) -> Expected:
    """One in so many, by which the norm of all goes."""
    torch.manual_seed(0)
    truth = torch.randn(4096, dtype=torch.float64)
    truth[::every] *= 10.0
    native = truth.float()
    native[::every] = native[::every].bfloat16().float()
    (expected,) = expect([native], [truth], half_precision=True)
    return expected


def test_where_a_part_is_made_in_16_bits_the_rest_is_not() -> None:
    expected = _rounded_in_places(3)
    assert not expected.is_unsound
    assert (bulk := expected.bounds[QUANTILES]) is not None
    assert bulk.half < 2e-4
    assert 6e-3 < bulk.most < 2e-2


def test_a_few_may_be_on_the_other_side_of_an_edge() -> None:
    assert _rounded_in_places(20).is_unsound


@pytest.mark.parametrize("count", [1, 40])
def test_few_numbers_may_be_made_in_16_bits_too(count: int) -> None:
    truth = torch.linspace(1.01, 1.9, count, dtype=torch.float64)
    native = (truth * 1.003).float()
    (expected,) = expect([native], [truth], half_precision=True)
    assert not expected.is_unsound


def test_what_is_off_by_less_is_held_to_that() -> None:
    torch.manual_seed(0)
    truth = torch.randn(4096, dtype=torch.float64)
    native = (truth + truth.mean() * 1e-4).float()
    (expected,) = expect([native], [truth], half_precision=True)
    assert expected.tolerance < 1e-4
