"""Tensors of any size, in pieces: indices of places, largest elements, what is finite."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.tensors import chunked as pieces
from gpu_sandbox.tensors.chunked import finite, indices_of, largest_of

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.data())
@settings(deadline=None)
def test_indices_of_places(shape: list[int], data: st.DataObject) -> None:
    count = torch.Size(shape).numel()
    places = torch.tensor(data.draw(st.lists(st.integers(0, count - 1))), dtype=torch.int64)
    found = indices_of(places, shape)
    assert all(map(torch.equal, found, torch.unravel_index(places, shape)))


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_that_is_not_finite(
    dtype: torch.dtype, odd: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_PIECE_ON_CPU", 30)
    tensor = torch.randn(20, 7).to(dtype)
    assert finite(tensor)
    for row, column in ((0, 0), (11, 3), (19, 6)):
        spoiled = tensor.clone()
        spoiled[row, column] = odd
        assert not finite(spoiled)
        assert not finite(spoiled[row, column])


def test_of_nothing_all_is_finite() -> None:
    assert finite(torch.rand(0, 3))
    assert finite(torch.arange(3))


def test_the_largest_of_each_row() -> None:
    rows = torch.tensor([[1.0, -3.0], [math.nan, 2.0], [-math.inf, 0.0], [-0.5, 0.25]])
    assert largest_of(rows).tolist()[2:] == [math.inf, 0.5]
    assert largest_of(rows)[0] == 3.0
    assert largest_of(rows)[1].isnan()
