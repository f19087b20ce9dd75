"""Memory that verifier and worker share: what is spoiled in it, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpu_sandbox.tensors.bitwise import same_bits
from gpu_sandbox.tensors.shared_arena import Arena, place
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded

CPU = torch.device("cpu")
MANY = torch.arange(-3.0, 60.0).reshape(7, 9)
INPUTS = {
    "float": MANY,
    "half": MANY.half(),
    "bfloat": MANY.bfloat16(),
    "double": MANY.double(),
    "complex": torch.complex(MANY.double(), MANY.double()),
    "boolean": MANY > 0,
    "integer": MANY.long(),
    "byte": MANY.abs().byte(),
    "transposed": MANY.t(),
    "expanded": MANY[:1].expand(5, 9),
    "scalar": torch.tensor(2.0),
    "nan": torch.full((3,), torch.nan),
}


def shared(tensors: list[torch.Tensor]) -> tuple[Arena, list[Any], list[torch.Tensor]]:
    """An arena that holds these, their spots, and views of them there."""
    spots, end = place(tensors, 0)
    arena = Arena.create(end, CPU)
    views = arena.views(spots)
    for tensor, view in zip(tensors, views, strict=True):
        view.copy_(tensor)
    return arena, spots, views


@pytest.mark.parametrize("kind", INPUTS)
def test_whatever_shares_memory_with_an_input_shows_that_it_is_spoiled(kind: str) -> None:
    tensor = INPUTS[kind]
    arena, spots, (view,) = shared([tensor])
    with arena.spoiled(spots):
        differ = view.isnan() if view.is_floating_point() or view.is_complex() else view != tensor
        assert bool(differ.any())
    assert same_bits(view, tensor)


def test_each_input_is_and_one_without_elements_is_no_obstacle() -> None:
    tensors = [MANY, torch.empty(4, 0), MANY * 2]
    arena, spots, views = shared(tensors)
    with arena.spoiled(spots):
        assert [bool(view.isnan().any()) for view in views] == [True, False, True]
    assert all(same_bits(a, b) for a, b in zip(views, tensors, strict=True))


def test_inputs_are_put_right_when_outputs_can_not_be_read() -> None:
    arena, spots, (view,) = shared([MANY])
    with pytest.raises(OSError, match="unread"), arena.spoiled(spots):
        raise OSError("unread")
    assert same_bits(view, MANY)


@pytest.mark.parametrize(("ended", "shows"), [(Ended, True), (ReferenceEnded, False)])
def test_the_references_outputs_are_read_as_they_are(ended: Any, shows: bool) -> None:
    arena, spots, (view,) = shared([MANY])
    peer = Peer.__new__(Peer)
    peer.ended, peer._arena = ended, arena
    with peer.spoiled(spots):
        assert bool(view.isnan().any()) == shows
    assert same_bits(view, MANY)
