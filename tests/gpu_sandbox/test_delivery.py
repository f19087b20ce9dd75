"""The CPU's call in two steps, on the worker's side."""

from __future__ import annotations

import socket
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from gpu_sandbox.child.arena import ALIGN, Arena, lay_out
from gpu_sandbox.child.clock import Clocked
from gpu_sandbox.child.delivery import Slot
from gpu_sandbox.child.signals import (
    CLAIM_BYTES,
    DELIVERED,
    FAILED,
    PLACE_BYTES,
    SEED_BYTES,
    claimed,
)
from gpu_sandbox.child.values import pack
from gpu_sandbox.frames import Channel
from gpu_sandbox.messages import Place, Request, StandBy

CPU = torch.device("cpu")
PLACES, SEED = 4, -1
X, Y = torch.randn(6, 5), torch.randint(0, 9, (7,))


def double(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 2 * x.t(), y + 1


@pytest.fixture
def arena() -> Arena:
    return Arena(torch.zeros(1 << 16, dtype=torch.uint8))


@pytest.fixture
def clocked(arena: Arena) -> Clocked:
    layout = lay_out([X, Y], list(double(X, Y)), 2, room=3 * ALIGN)
    fresh = Clocked(double, CPU)
    for number in range(2):
        inputs, outputs = layout.inputs[number], layout.outputs[number]
        place = Place(
            slot=number, args=pack(None, [], pickling=True), inputs=inputs, outputs=outputs
        )
        views = arena.views(inputs)
        fresh.slots[number] = Slot(views, views, arena.views(outputs), arena, place)
    for view, tensor in zip(fresh.slots[0].inputs, (X, Y), strict=True):
        view.copy_(tensor)
    return fresh


def made(
    clocked: Clocked,
    place: int = 0,
    while_out: Callable[[], None] = lambda: None,
    rehearsals: int = 0,
    within_s: float = 60.0,
) -> int:
    """A call as the verifier has one made, and what it claims; ``while_out`` before its output is
    asked for."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as pool:
        clocked.stand_by(StandBy(places=PLACES, rehearsals=rehearsals, within_s=within_s))
        channel: Channel[Request] = Channel(theirs, Request)
        answering = pool.submit(clocked.answer, channel)
        ours.sendall(SEED.to_bytes(SEED_BYTES, "little", signed=True))
        elapsed_ns = claimed(ours.recv(CLAIM_BYTES))
        if elapsed_ns >= 0:
            while_out()
            ours.sendall(place.to_bytes(PLACE_BYTES, "little"))
            assert ours.recv(1) == (FAILED if answering.exception() else DELIVERED)
        answering.result()
    return elapsed_ns


@pytest.mark.parametrize("place", [0, 1, 3])
def test_outputs_are_where_they_are_told_to_be_and_nowhere_before(
    clocked: Clocked, arena: Arena, place: int
) -> None:
    before = arena.stretch(0, arena.size).clone()

    def nowhere() -> None:
        assert torch.equal(arena.stretch(0, arena.size), before)

    assert made(clocked, place, nowhere) > 0
    assert all(leaf.written and not leaf.aliases_input for leaf in clocked.describe().leaves)
    places = clocked.slots[0].places[place]
    assert all(torch.equal(a, b) for a, b in zip(places, double(X, Y), strict=True))
    assert places[0].data_ptr() == clocked.slots[0].outputs[0].data_ptr() + place * ALIGN


@pytest.mark.parametrize("output", ["call", "delivery"])
def test_what_fails_is_said_in_time_and_raised(clocked: Clocked, output: str) -> None:
    class Odd(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise ArithmeticError

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if output == "call":
            raise ArithmeticError
        return torch.Tensor._make_subclass(Odd, x)

    other = Clocked(model, CPU)
    other.slots = clocked.slots
    with pytest.raises(ArithmeticError):
        made(other)


def test_what_was_called_is_delivered_though_its_inputs_are_gone(clocked: Clocked) -> None:
    def spoil() -> None:
        for tensor in clocked.slots[0].inputs:
            tensor.zero_()

    made(clocked, 0, spoil)
    assert torch.equal(clocked.slots[0].outputs[0], 2 * X.t())


def test_warming_up_reads_what_was_given_for_timed_calls_alone(clocked: Clocked) -> None:
    called = []
    other = Clocked(lambda x, y: called.append(x.data_ptr()), CPU)
    other.slots = clocked.slots
    other.warm(3, 0.0)
    assert set(called) == {clocked.slots[0].inputs[0].data_ptr()}


def test_a_call_is_rehearsed_on_the_inputs_before(clocked: Clocked) -> None:
    """Who did so by itself would be faster than who does not. Before the first there are none."""
    seen: list[float] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(x[0, 0].item())
        return double(x, y)

    other = Clocked(model, CPU)
    other.slots = clocked.slots
    x = other.slots[0].inputs[0]
    x[0, 0] = 7
    made(other, 1, rehearsals=3)
    assert seen == [7]
    made(other, 2, lambda: x[0, 0].fill_(8), rehearsals=3)
    assert seen == [7] * 5
    made(other, 0, rehearsals=3, within_s=0.0)
    assert seen[5:] == [8, 8], "once, if it takes long"
    other.slots = {0: clocked.slots[1]}
    made(other, 0, rehearsals=3)
    assert len(seen) == 8, "what lies elsewhere was nobody's input yet"


def test_a_rehearsal_delivers_where_the_output_was(clocked: Clocked) -> None:
    made(clocked, 2)
    before = [place.clone() for place in clocked.slots[0].places[2]]
    for place in clocked.slots[0].places[2]:
        place.zero_()
    clocked.stand_by(StandBy(places=PLACES, rehearsals=1, within_s=60.0))
    after = clocked.slots[0].places[2]
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_an_output_lives_until_the_next_is_there_and_no_longer(clocked: Clocked) -> None:
    """Else what a call takes hangs on where the allocator puts its output."""
    outs: list[weakref.ref[torch.Tensor]] = []
    alive: list[list[bool]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        alive.append([reference() is not None for reference in outs])
        outputs = double(x, y)
        outs.append(weakref.ref(outputs[1]))
        return outputs

    other = Clocked(model, CPU)
    other.slots = clocked.slots
    for _ in range(4):
        made(other)
        other.describe()
    assert alive == [[], [True], [False, True], [False, False, True]]


@pytest.mark.parametrize(("words", "held"), [(7, True), (9 << 20, False)])
def test_warm_calls_hold_as_many_outputs_as_timed_ones(words: int, held: bool) -> None:
    """So the allocator has memory for those before anything is timed; but not for gigabytes."""
    output = torch.empty(words, dtype=torch.int64)
    arena = Arena(torch.zeros((words << 3) + (1 << 16), dtype=torch.uint8))
    layout = lay_out([Y], [output], 1)
    (inputs,), (outputs,) = layout.inputs, layout.outputs
    place = Place(slot=0, args=pack(None, [], pickling=True), inputs=inputs, outputs=outputs)
    outs: list[weakref.ref[torch.Tensor]] = []
    alive: list[bool] = []

    def model(y: torch.Tensor) -> torch.Tensor:
        alive.append(bool(outs) and outs[-1]() is not None)
        output = torch.empty(words, dtype=torch.int64)
        outs.append(weakref.ref(output))
        return output

    clocked = Clocked(model, CPU)
    clocked.slots[0] = Slot(
        arena.views(inputs), arena.views(inputs), arena.views(outputs), arena, place
    )
    clocked.warm(3, 0.0)
    assert alive == [False, held, held]
    assert (outs[-1]() is not None) == held


def test_a_view_of_much_memory_does_not_hold_it(clocked: Clocked) -> None:
    outs: list[weakref.ref[torch.Tensor]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = 2 * x.t(), torch.empty(9 << 20, dtype=torch.int64)[:7]
        outs.append(weakref.ref(outputs[1]))
        return outputs

    other = Clocked(model, CPU)
    other.slots = clocked.slots
    made(other)
    assert outs[0]() is not None
    other.describe()
    assert outs[0]() is None
