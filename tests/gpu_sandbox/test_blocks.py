"""What is changed in place, and what is left alone."""

from __future__ import annotations

import pytest
import torch

from gpu_sandbox.child.blocks import change_in_place


def more(tensor: torch.Tensor) -> torch.Tensor:
    return tensor + 64.0


def test_half_of_each_dimension_next_to_each_other() -> None:
    seen = set()
    for _ in range(40):
        x, n = torch.zeros(6, 1, 10), torch.arange(4)
        assert change_in_place([x, n], [], more, "half")
        places = (x == 64.0).nonzero()
        least, most = places.min(dim=0).values, places.max(dim=0).values
        assert (most - least + 1).tolist() == [3, 1, 5]
        assert len(places) == 15
        assert torch.equal(n, torch.arange(4))
        seen.add(tuple(least.tolist()))
    assert len(seen) > 8


def test_a_few() -> None:
    x = torch.zeros(40, 50).t()
    counts = []
    for _ in range(40):
        x.zero_()
        assert change_in_place([x], [], more, "few")
        counts.append(int((x == 64.0).sum()))
    assert 5 < counts.count(1) < 40
    assert 0 < min(counts) < max(counts) <= 2000 // 64


@pytest.mark.parametrize("part", ["half", "few"])
def test_memory_that_is_somebody_elses_too_is_left_alone(part: str) -> None:
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    for tensors, kept in (
        ([y, x[:4]], [x]),
        ([x, x.t()], []),
        ([x[0].expand(8, 8)], []),
        ([x, x.view(torch.int32)], []),
        ([torch.arange(9)], []),
        ([], []),
    ):
        assert not change_in_place(tensors, kept, more, part)  # type: ignore[arg-type]
    assert not x.any()
    assert not y.any()
