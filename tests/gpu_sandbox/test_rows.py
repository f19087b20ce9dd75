"""Private copies of what lies in an arena for each call, for any shapes, strides and types."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.tensors.gate_layout import (
    CallBuffers,
    StridedRegions,
    bytes_of_calls,
    digest_bytes,
    rounds,
)
from gpu_sandbox.tensors.shared_arena import Arena, lay_out

CPU = torch.device("cpu")
SHAPES = st.lists(st.integers(0, 5), max_size=3)
KINDS = st.sampled_from([torch.float32, torch.float64, torch.int8, torch.bool, torch.float16])
HOW = st.sampled_from(["plain", "transposed", "expanded"])


@st.composite
def tensors(draw: st.DrawFn) -> list[torch.Tensor]:
    made = []
    for _ in range(draw(st.integers(0, 3))):
        tensor = torch.randint(0, 2, draw(SHAPES)).to(draw(KINDS))
        match draw(HOW):
            case "transposed":
                tensor = tensor.permute(list(reversed(range(tensor.dim()))))
            case "expanded":
                tensor = tensor.expand(3, *tensor.shape)
        made.append(tensor)
    return made


def other(tensor: torch.Tensor) -> torch.Tensor:
    return torch.randint(0, 2, tensor.shape).to(tensor.dtype)


@given(tensors(), tensors(), st.integers(1, 4))
def test_what_is_put_into_rows_is_found_in_the_arena_and_back(
    inputs: list[torch.Tensor], outputs: list[torch.Tensor], calls: int
) -> None:
    layout = lay_out(inputs, outputs, calls)
    arena = Arena.create(layout.total_bytes, CPU)
    for kind, places in ((inputs, layout.inputs), (outputs, layout.outputs)):
        rows, back = CallBuffers(kind, calls, CPU), CallBuffers(kind, calls, CPU)
        cases = [[other(tensor) for tensor in kind] for _ in range(calls)]
        for case, views in zip(cases, rows.views, strict=True):
            for tensor, view in zip(case, views, strict=True):
                view.copy_(tensor)
        bytes_of_calls(arena, places).copy_(rows.bytes)
        back.bytes.copy_(bytes_of_calls(arena, places))
        for case, spots, views in zip(cases, places, back.views, strict=True):
            assert all(map(torch.equal, case, arena.views(spots)))
            assert all(map(torch.equal, case, views))
        numbers = list(reversed(range(calls)))
        own = back.copies(numbers, [view.stride() for view in back.views[0]])
        back.bytes.zero_()
        for number, copies in zip(numbers, own, strict=True):
            assert all(map(torch.equal, cases[number], copies))
        assert rows.regions.size == StridedRegions.of(places).size
    arena.close()


@given(st.integers(1, 60))
def test_every_call_is_let_in_once(calls: int) -> None:
    assert rounds("once", calls) == [range(calls)]
    assert [k for round_ in rounds("each", calls) for k in round_] == list(range(calls))
    assert all(len(round_) == 1 for round_ in rounds("each", calls))


def test_nothing_has_no_digest_and_much_a_short_one() -> None:
    assert digest_bytes(0) == 0
    assert digest_bytes(64) == 32
    assert digest_bytes(1 << 40) == 32 * 256
