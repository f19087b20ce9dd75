"""The CPU's call in two steps, on the worker's side."""

from __future__ import annotations

import weakref

import pytest
import torch

from gpu_sandbox.child.arena import ALIGN, Arena, lay_out
from gpu_sandbox.child.clock import Clocked
from gpu_sandbox.child.delivery import Slot
from gpu_sandbox.child.values import pack
from gpu_sandbox.messages import Place, Time

CPU = torch.device("cpu")
TIME = Time(calls=1, seed=1, flush_bytes=0, cover_us=0)
X, Y = torch.randn(6, 5), torch.randint(0, 9, (7,))


def double(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 2 * x.t(), y + 1


@pytest.fixture
def arena() -> Arena:
    return Arena(torch.zeros(1 << 16, dtype=torch.uint8))


@pytest.fixture
def clocked(arena: Arena) -> Clocked:
    layout = lay_out([X, Y], list(double(X, Y)), 2, room=3 * ALIGN)
    made = Clocked(double, CPU)
    for number in range(2):
        inputs, outputs = layout.inputs[number], layout.outputs[number]
        place = Place(
            slot=number, args=pack(None, [], pickling=True), inputs=inputs, outputs=outputs
        )
        views = arena.views(inputs)
        made.slots[number] = Slot(views, views, arena.views(outputs), arena, place)
    for view, tensor in zip(made.slots[0].inputs, (X, Y), strict=True):
        view.copy_(tensor)
    return made


@pytest.mark.parametrize("shift", [0, ALIGN, 3 * ALIGN])
def test_outputs_are_where_they_are_told_to_be_and_nowhere_before(
    clocked: Clocked, arena: Arena, shift: int
) -> None:
    before = arena.stretch(0, arena.size).clone()
    clocked.time(TIME)
    assert torch.equal(arena.stretch(0, arena.size), before)
    ran = clocked.deliver(shift)
    assert all(leaf.written and not leaf.aliases_input for leaf in ran.leaves)
    places = clocked.slots[0].moved(shift).outputs
    assert all(torch.equal(a, b) for a, b in zip(places, double(X, Y), strict=True))
    assert places[0].data_ptr() == clocked.slots[0].outputs[0].data_ptr() + shift


def test_what_was_called_is_delivered_though_its_inputs_are_gone(clocked: Clocked) -> None:
    clocked.time(TIME)
    for tensor in clocked.slots[0].inputs:
        tensor.zero_()
    clocked.deliver(0)
    assert torch.equal(clocked.slots[0].outputs[0], 2 * X.t())


def test_warming_up_reads_what_was_given_for_timed_calls_alone(clocked: Clocked) -> None:
    called = []
    other = Clocked(lambda x, y: called.append(x.data_ptr()), CPU)
    other.slots = clocked.slots
    other.warm(3, 0.0)
    assert set(called) == {clocked.slots[0].inputs[0].data_ptr()}


def test_an_output_lives_until_the_next_is_there_and_no_longer(clocked: Clocked) -> None:
    """Else what a call takes hangs on where the allocator puts its output."""
    made: list[weakref.ref[torch.Tensor]] = []
    alive: list[list[bool]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        alive.append([reference() is not None for reference in made])
        outputs = double(x, y)
        made.append(weakref.ref(outputs[1]))
        return outputs

    other = Clocked(model, CPU)
    other.slots = clocked.slots
    for _ in range(4):
        other.time(TIME)
        other.deliver(0)
    assert alive == [[], [True], [False, True], [False, False, True]]


@pytest.mark.parametrize(("words", "held"), [(7, True), (9 << 20, False)])
def test_warm_calls_hold_as_many_outputs_as_timed_ones(words: int, held: bool) -> None:
    """So the allocator has memory for those before anything is timed; but not for gigabytes."""
    output = torch.empty(words, dtype=torch.int64)
    arena = Arena(torch.zeros((words << 3) + (1 << 16), dtype=torch.uint8))
    layout = lay_out([Y], [output], 1)
    (inputs,), (outputs,) = layout.inputs, layout.outputs
    place = Place(slot=0, args=pack(None, [], pickling=True), inputs=inputs, outputs=outputs)
    made: list[weakref.ref[torch.Tensor]] = []
    alive: list[bool] = []

    def model(y: torch.Tensor) -> torch.Tensor:
        alive.append(bool(made) and made[-1]() is not None)
        output = torch.empty(words, dtype=torch.int64)
        made.append(weakref.ref(output))
        return output

    clocked = Clocked(model, CPU)
    clocked.slots[0] = Slot(
        arena.views(inputs), arena.views(inputs), arena.views(outputs), arena, place
    )
    clocked.warm(3, 0.0)
    assert alive == [False, held, held]
    assert (made[-1]() is not None) == held


def test_a_view_of_much_memory_does_not_hold_it(clocked: Clocked) -> None:
    made: list[weakref.ref[torch.Tensor]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = 2 * x.t(), torch.empty(9 << 20, dtype=torch.int64)[:7]
        made.append(weakref.ref(outputs[1]))
        return outputs

    other = Clocked(model, CPU)
    other.slots = clocked.slots
    other.time(TIME)
    assert made[0]() is not None
    other.deliver(0)
    assert made[0]() is None
