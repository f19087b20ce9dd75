"""A run in float64 draws the numbers that the reference's own does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from gpu_sandbox.verifier.reference.float64_casts import Float64Casts

CPU = torch.device("cpu")
SHAPE = (8, 16, 10, 12)

DRAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand_like": lambda t: t + torch.rand_like(t),
    "randn_like": lambda t: t + torch.randn_like(t),
    "named": lambda t: t + torch.randn_like(t, dtype=torch.float32),
    "rand": lambda t: t + torch.rand(t.shape),
    "uniform_": lambda t: torch.empty_like(t).uniform_(-1, 1),
    "normal_": lambda t: t + torch.empty_like(t).normal_(std=2.0),
    "exponential_": lambda t: t + torch.empty_like(t).exponential_(),
    "normal": lambda t: torch.normal(t, 0.5),
    "bernoulli": lambda t: torch.bernoulli(t.sigmoid()),
    "bernoulli_": lambda t: torch.empty_like(t).bernoulli_(0.3),
    "bernoulli_ of each": lambda t: torch.empty_like(t).bernoulli_(t.sigmoid()),
    "multinomial": lambda t: torch.multinomial(t.flatten(0, 2).softmax(-1), 3),
    "dropout": lambda t: F.dropout(t, 0.3),
    "dropout in place": lambda t: F.dropout(t.clone(), 0.3, inplace=True),
    "no dropout": lambda t: F.dropout(t, 0.3, training=False),
    "dropout of a module": torch.nn.Dropout(0.2),
    "torch.dropout": lambda t: torch.dropout(t, 0.3, train=True),
    "dropout2d": torch.nn.Dropout2d(0.4),
    "one after the other": lambda t: torch.rand_like(t) + F.dropout(t, 0.5) + torch.rand_like(t),
    "gumbel_softmax": F.gumbel_softmax,
    "highest of gumbel_softmax": lambda t: F.gumbel_softmax(t, tau=0.5, hard=True, dim=1),
    "turned": lambda t: t.mT + torch.randn_like(t.mT),
}


@pytest.mark.parametrize("name", DRAWS)
def test_it_draws_the_same_numbers(name: str) -> None:
    torch.manual_seed(1)
    given = torch.randn(SHAPE)
    torch.manual_seed(2)
    own = DRAWS[name](given)
    after = torch.rand(3)
    torch.manual_seed(2)
    with Float64Casts(CPU):
        wide = DRAWS[name](given.double())
    assert torch.equal(torch.rand(3), after), "as many"
    assert wide.dtype == (torch.float64 if own.is_floating_point() else own.dtype)
    assert torch.allclose(wide, own.to(wide.dtype), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["rand_like", "randn_like", "dropout", "bernoulli_"])
def test_in_the_type_that_the_reference_has(name: str, dtype: torch.dtype) -> None:
    given = torch.ones(SHAPE, dtype=dtype)
    torch.manual_seed(2)
    own = DRAWS[name](given)
    torch.manual_seed(2)
    with Float64Casts(CPU, dtype):
        wide = DRAWS[name](given.double())
    assert torch.allclose(wide, own.double(), rtol=2 * torch.finfo(dtype).eps)


def test_what_is_not_wide_is_drawn_as_it_is() -> None:
    integers = torch.zeros(100, dtype=torch.int64)
    torch.manual_seed(2)
    own = integers.clone().geometric_(0.5)
    torch.manual_seed(2)
    with Float64Casts(CPU):
        assert torch.equal(integers.clone().geometric_(0.5), own)
