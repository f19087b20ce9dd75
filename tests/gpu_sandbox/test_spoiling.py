from __future__ import annotations

import pytest
import torch

from gpu_sandbox.child.arena import Arena, lay_out
from gpu_sandbox.child.spoiling import Spoiling

SMALL = [torch.randn(1), torch.randn(5, 7), torch.randint(0, 9, (3,)), torch.ones(900).bool()]
LARGE = [torch.randn(512, 1024), torch.randn(300, 1000).t()]


def laid(tensors: list[torch.Tensor]) -> tuple[Spoiling, list[torch.Tensor]]:
    layout = lay_out(tensors, [], 1)
    arena = Arena(torch.zeros(layout.total_bytes, dtype=torch.uint8))
    views = arena.views(layout.inputs[0])
    for view, tensor in zip(views, tensors, strict=True):
        view.copy_(tensor)
    return Spoiling(arena, layout.inputs[0]), views


@pytest.mark.parametrize("tensors", [SMALL, LARGE, SMALL + LARGE, 40 * SMALL[:1]])
def test_each_tensor_is_spoiled_and_put_back(tensors: list[torch.Tensor]) -> None:
    spoiling, views = laid(tensors)
    spoiling.spoil()
    assert not any(torch.equal(a, b) for a, b in zip(views, tensors, strict=True))
    spoiling.undo()
    assert all(torch.equal(a, b) for a, b in zip(views, tensors, strict=True))


def test_of_a_small_tensor_nothing_is_left() -> None:
    spoiling, (view,) = laid([torch.randn(64, 64)])
    before = view.clone()
    spoiling.spoil()
    assert not bool((view == before).any())


def test_of_a_large_tensor_little_is_touched_and_never_the_same() -> None:
    touched = []
    for _ in range(2):
        spoiling, (view,) = laid([torch.zeros(4096, 1024)])
        spoiling.spoil()
        touched.append({int(row) for row in view.ne(0).any(dim=1).nonzero()})
    assert all(1 < len(rows) <= 16 for rows in touched)
    assert touched[0] != touched[1]


def test_nothing_to_spoil() -> None:
    spoiling, views = laid([torch.zeros(0, 4)])
    spoiling.spoil()
    spoiling.undo()
    assert views[0].shape == (0, 4)
