"""Constants of new modules, and modules that hold others in their places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gpu_sandbox.ipc.model_messages import Constant
from gpu_sandbox.tensors.trained_state import (
    any_frozen,
    constant_of,
    constant_state,
    construct_trained,
    trained_values,
)

ONES, ZEROS = (Constant(elements=8, value=value, seed=int(value)) for value in (1.0, 0.0))


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.batch = nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 8)
        self.inner = nn.ModuleList([nn.GroupNorm(2, 8)])
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.drawn = nn.Parameter(torch.randn(1))
        self.tied = self.norm.weight
        self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)
        self.register_buffer("kernel", torch.ones(8))
        self.register_buffer("unsaved", torch.zeros(8), persistent=False)


def test_what_is_constant_are_parameters_and_running_statistics() -> None:
    assert set(constant_state(Everything())) == {
        "tied", "norm.bias", "batch.weight", "batch.bias", "batch.running_mean",
        "batch.running_var", "inner.0.weight", "inner.0.bias", "temperature",
    }  # fmt: skip


def test_where_all_parameters_are_frozen_all_count() -> None:
    model = nn.LayerNorm(8).requires_grad_(False)
    assert any_frozen(model)
    assert set(constant_state(model)) == {"weight", "bias"}


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (torch.ones(3, 2), 1.0),
        (torch.tensor(0.1), 0.1),
        (torch.full((4,), 0.1, dtype=torch.float16), 0.1),
        (torch.tensor([0.123456789]), None),
        (torch.tensor([1.0, 2.0, 1.0]), None),
        (torch.tensor([1.0, 1.0, 2.0]), None),
        (torch.full((3,), math.inf), None),
        (torch.ones(3, dtype=torch.int64), None),
        (torch.ones(0), None),
        (torch.ones(3).to_sparse(), None),
    ],
)
def test_a_constant_is_one_finite_number(tensor: torch.Tensor, value: float | None) -> None:
    found = constant_of(tensor)
    assert found == (None if value is None else pytest.approx(value, rel=1e-3))


def test_values_stay_near_the_constant_and_are_the_same_each_time() -> None:
    for elements in (1, 8, 1 << 16):
        one = trained_values(Constant(elements=elements, value=2.0, seed=3))
        assert bool(((one >= 1.5) & (one <= 2.5) & (one != 2.0)).all())
        again = trained_values(Constant(elements=elements, value=2.0, seed=3))
        assert torch.equal(one, again)
    many = trained_values(Constant(elements=1 << 20, value=0.0, seed=3)).view(1 << 10, -1)
    assert float((torch.ones(1 << 10) @ many).std()) < 1.0


def made(make: Callable[[], Any], **options: bool) -> Any:
    return construct_trained(make, [ONES, ZEROS], **{"frozen": False, **options})


def is_drawn(tensor: torch.Tensor, constant: Constant) -> bool:
    return torch.equal(tensor.detach().flatten(), trained_values(constant))


def test_each_kind_of_creation_is_seen() -> None:
    def scaled() -> nn.Parameter:
        return nn.Parameter(torch.ones(2, 4) * 0.5 + 0.5)

    def filled() -> nn.Parameter:
        parameter = nn.Parameter(torch.randn(8))
        parameter.data.fill_(1.0)
        return parameter

    def replaced() -> nn.Parameter:
        parameter = nn.Parameter(torch.randn(8))
        parameter.data = torch.ones(8)
        return parameter

    def initialised() -> nn.Parameter:
        return nn.Parameter(nn.init.constant_(torch.empty(8), 1.0))

    for make in (scaled, filled, replaced, initialised, lambda: nn.LayerNorm(8).weight):
        assert is_drawn(made(make), ONES)
    assert is_drawn(made(lambda: nn.BatchNorm1d(8).running_mean), ZEROS)
    assert is_drawn(made(lambda: nn.BatchNorm1d(8).running_var), ONES)


def test_what_is_read_while_it_is_constructed_is_what_stays() -> None:
    def folded() -> torch.Tensor:
        return nn.LayerNorm(8).weight.detach() * 2

    assert torch.equal(made(folded), trained_values(ONES) * 2)


def test_a_constant_of_the_method_stays() -> None:
    model = made(Everything)
    assert constant_of(model.kernel) == constant_of(model.frozen) == 1.0
    assert constant_of(model.unsaved) == 0.0
    assert is_drawn(model.tied, ONES)
    assert set(constant_state(model)) == {"temperature"}


def test_what_is_no_parameter_counts_broadly() -> None:
    assert constant_of(made(lambda: torch.ones(8))) == 1.0
    assert is_drawn(made(lambda: torch.ones(8), broad=True), ONES)


def test_numbers_that_are_drawn_otherwise_are_as_they_were() -> None:
    torch.manual_seed(4)
    plain = Everything()
    torch.manual_seed(4)
    model = made(Everything)
    assert torch.equal(plain.linear.weight, model.linear.weight)
    assert torch.equal(plain.drawn, model.drawn)


def test_nothing_of_it_stays_behind() -> None:
    def fails() -> None:
        raise ValueError("it has no parameters")

    before = nn.Parameter.__dict__["__new__"]
    with pytest.raises(ValueError, match="no parameters"):
        made(fails)
    assert nn.Parameter.__dict__["__new__"] is before
    assert constant_of(nn.BatchNorm1d(8).weight) == 1.0
    assert constant_of(nn.BatchNorm1d(8).running_var) == 1.0
