"""What PyTorch leaves open of sorted equals, as whoever keeps them in order has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.verifier.reference.stable_sort import StableSort
from tests.thorough import examples

WAYS: list[Callable[[torch.Tensor], Any]] = [
    lambda x: torch.kthvalue(x, 2),
    lambda x: x.kthvalue(3, 0, True),
    lambda x: torch.median(x, 1),
    lambda x: x.median(dim=0, keepdim=True),
    lambda x: torch.topk(x, 2, dim=0),
    torch.mode,
    lambda x: x.mode(0, keepdim=True),
    lambda x: torch.sort(x, descending=True),
]


@pytest.mark.parametrize("way", range(len(WAYS)))
@given(seed=st.integers(0, 10**6))
@settings(max_examples=examples(20), deadline=None)
def test_values_are_the_same_and_indices_are_those_of_such(way: int, seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.randint(0, 4, (7, 8)).float()
    usual = WAYS[way](x)
    with StableSort() as sorting:
        found = WAYS[way](x)
    assert sorting.is_unstable
    assert type(found) is type(usual)
    assert torch.equal(found.values, usual.values)
    assert found.indices.shape == usual.indices.shape
    dim = 0 if way in (1, 3, 4, 6) else 1
    if found.indices.dim() == 2:
        assert torch.equal(x.gather(dim, found.indices), found.values)


def test_of_equals_the_first_in_order() -> None:
    x = torch.tensor([[1.0, 2.0, 2.0, 2.0, 3.0]])
    with StableSort():
        assert torch.kthvalue(x, 2).indices.tolist() == [1]
        assert torch.median(x, 1).indices.tolist() == [2]
        assert torch.topk(x, 3).indices.tolist() == [[4, 1, 2]]
        assert torch.mode(x).indices.tolist() == [1]


def test_a_median_without_an_index_or_of_no_number_is_as_ever() -> None:
    x = torch.tensor([[1.0, torch.nan, 2.0]])
    with StableSort() as sorting:
        assert x.median().isnan()
        assert not sorting.is_unstable
        assert torch.median(x, 1).values.isnan()
        assert torch.median(torch.tensor(3.0), 0).values == 3
        assert torch.kthvalue(torch.tensor(3.0), 1).values == 3
