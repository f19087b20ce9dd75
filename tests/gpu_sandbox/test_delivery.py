"""The CPU's call, on the worker's side: what is told of it, and what becomes of its output."""

from __future__ import annotations

import dataclasses
import os
import socket
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from gpu_sandbox.ipc.cpu_call_messages import NOWHERE, SEED_BYTES, Answer, Where
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.worker_messages import Place, Request, Run, StandBy
from gpu_sandbox.tensors import overwriting
from gpu_sandbox.tensors.pytree import pack, same_shape, unpack
from gpu_sandbox.tensors.shared_arena import Arena, lay_out
from gpu_sandbox.verifier.worker_link.worker_memory import Memory, Unreadable
from gpu_sandbox.worker import outputs as delivery
from gpu_sandbox.worker.expose_memory import open_own_memory
from gpu_sandbox.worker.outputs import Slot
from gpu_sandbox.worker.timed_calls import TimedModel

CPU = torch.device("cpu")
SEED = -1
X, Y = torch.randn(6, 5), torch.randint(0, 9, (7,))


def double(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 2 * x.t(), y + 1


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(open_own_memory())
    yield memory
    memory.close()


def laid(model: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> TimedModel:
    layout = lay_out(inputs, outputs, 2)
    arena = Arena(torch.zeros(layout.total_bytes, dtype=torch.uint8))
    clocked = TimedModel(model, CPU)
    for number in range(2):
        spots = layout.inputs[number], layout.outputs[number]
        place = Place(
            slot=number, args=pack(None, [], pickling=True), inputs=spots[0], outputs=spots[1]
        )
        views = arena.views(spots[0])
        clocked.slots[number] = Slot(views, views, arena.views(spots[1]), arena, place)
    for view, tensor in zip(clocked.slots[0].inputs, inputs, strict=True):
        view.copy_(tensor)
    return clocked


@pytest.fixture
def clocked() -> TimedModel:
    return laid(double, [X, Y], list(double(X, Y)))


def answered(
    clocked: TimedModel, rehearsals: int = 0, within_s: float = 60.0
) -> tuple[int, list[Where]] | None:
    """A call as the verifier has one made, and what is told of it."""
    ours, theirs = socket.socketpair()
    form = Answer([place.dim() for place in clocked.slots[0].outputs])
    with ours, theirs, ThreadPoolExecutor(1) as pool:
        clocked.stand_by(StandBy(rehearsals=rehearsals, within_s=within_s))
        channel: Channel[Request] = Channel(theirs, Request)
        answering = pool.submit(clocked.answer, channel)
        ours.sendall(SEED.to_bytes(SEED_BYTES, "little", signed=True))
        heard = form.decode(ours.recv(form.size))
        answering.result()
    return heard


def made(clocked: TimedModel, rehearsals: int = 0, within_s: float = 60.0) -> list[Where]:
    heard = answered(clocked, rehearsals, within_s)
    assert heard is not None
    assert heard[0] > 0
    return heard[1]


def read(memory: Memory, clocked: TimedModel, found: list[Where]) -> list[torch.Tensor]:
    spots = clocked.slots[0].place.outputs
    return [memory.read(*each) for each in zip(spots, found, strict=True)]


def test_outputs_are_read_from_where_the_call_left_them(
    clocked: TimedModel, memory: Memory
) -> None:
    got = read(memory, clocked, made(clocked))
    assert all(torch.equal(a, b) for a, b in zip(got, double(X, Y), strict=True))
    assert all(leaf.written and not leaf.aliases_input for leaf in clocked.describe().leaves)
    assert not any(place.any() for place in clocked.slots[0].outputs), "nothing is copied"


class Named(torch.Tensor):
    """As a library's own kind of tensor."""


OUTPUTS = {
    "dense": lambda x: x * 2,
    "transposed": lambda x: (x.t() * 2).t(),
    "every-other": lambda x: torch.stack([x, x], -1)[..., 0] * 2 if x.dim() else x,
    "far-apart": torch.randn(6, 5 * 64)[:, ::64].copy_,
    "expanded": lambda x: x[:1].expand(6, 5),
    "of-a-class": lambda x: (x * 2).as_subclass(Named),
    "parameter": lambda x: torch.nn.Parameter(x * 2),
    "conjugate": lambda x: torch.complex(x, x).conj(),
    "negative": lambda x: torch.complex(x, x).conj().imag,
    "boolean": lambda x: x > 0,
    "half": lambda x: x.half(),
    "empty": lambda x: x[:, :0],
    "scalar": lambda x: x.sum(),
    "an-input": lambda x: x,
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_outputs_of_every_kind_are_read_as_they_are(kind: str, memory: Memory) -> None:
    output = OUTPUTS[kind]
    expected = output(X).detach().as_subclass(torch.Tensor)
    clocked = laid(output, [X], [expected])
    (got,) = read(memory, clocked, made(clocked))
    assert torch.equal(got, expected.resolve_conj().resolve_neg())
    assert type(got) is torch.Tensor
    assert got.dtype == expected.dtype
    (leaf,) = clocked.describe().leaves
    assert leaf.written


@pytest.mark.parametrize("expected", [X, X.t().contiguous().t(), X[:, None, :1].expand(6, 1, 1)])
def test_an_output_lies_in_order_where_the_references_does_not(
    expected: torch.Tensor, memory: Memory
) -> None:
    clocked = laid(lambda x: expected.contiguous(), [X], [expected])
    (got,) = read(memory, clocked, made(clocked))
    assert torch.equal(got, expected)


@pytest.mark.parametrize(
    ("kind", "copies"), [("dense", False), ("transposed", False), ("far-apart", True)]
)
def test_what_it_takes_to_copy_an_output_is_told_apart(kind: str, copies: bool) -> None:
    clocked = laid(OUTPUTS[kind], [X], [OUTPUTS[kind](X)])
    made(clocked)
    told = clocked.describe()
    assert (told.copied_ns > 1000) == copies
    assert told.copied_ns < told.handled_ns


@pytest.mark.parametrize(
    ("output", "overlap"),
    [
        (X, False),
        (X.t(), False),
        (X[::2, 1:4], False),
        (torch.empty(4, 1, 7, 3).permute(3, 1, 0, 2), False),
        (torch.empty(3, 4, 5).diagonal(dim1=0, dim2=2), False),
        (torch.empty(20).unfold(0, 4, 4), False),
        (torch.empty(0, 5), False),
        (torch.empty(0, 5).as_strided((0, 5), (0, 0)), False),  # as of an array of numpy
        (torch.tensor(1.0).expand(1, 1), False),
        (X[:1].expand(6, 5), True),
        (torch.empty(20).unfold(0, 4, 1), True),
        (torch.empty(20).unfold(0, 4, 3), True),
        (torch.empty(20).as_strided((4, 4), (2, 1)), True),
    ],
)
def test_elements_that_share_memory_are_told_of(output: torch.Tensor, overlap: bool) -> None:
    clocked = laid(lambda x: output, [X], [output])
    made(clocked)
    (leaf,) = clocked.describe().leaves
    assert leaf.overlapping == overlap


@pytest.mark.parametrize(
    "output", [X.double(), X[:5], torch.empty(6, 5, device="meta"), X.to_sparse(), None]
)
def test_an_output_that_is_not_as_expected_is_nowhere(output: Any, memory: Memory) -> None:
    clocked = laid(lambda x: output, [X], [X])
    (where,) = made(clocked)
    assert where.address == NOWHERE
    with pytest.raises(Unreadable):
        read(memory, clocked, [where])
    assert not any(leaf.written for leaf in clocked.describe().leaves)


def test_a_byte_of_a_boolean_is_no_third_value(memory: Memory) -> None:
    odd = torch.tensor([0, 1, 2, 255], dtype=torch.uint8).view(torch.bool)
    clocked = laid(lambda x: odd, [X], [odd])
    (got,) = read(memory, clocked, made(clocked))
    assert got.view(torch.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("address", "stride"),
    [
        (NOWHERE, (5, 1)),
        (4096, (5, 1)),
        (-1, (5, 1)),
        ((1 << 63) - 1, (5, 1)),
        (None, (-5, -1)),
        (None, (1, -1)),  # reaches over nothing
        (None, (1 << 62, 1 << 62)),
        (None, (5 << 10, 1)),
    ],
)
def test_what_can_not_be_read_is_nothing(
    clocked: TimedModel, memory: Memory, address: int | None, stride: tuple[int, ...]
) -> None:
    _, where = made(clocked)
    (spot, _) = clocked.slots[0].place.outputs
    with pytest.raises(Unreadable):
        memory.read(spot, Where(where.address if address is None else address, stride))


@pytest.mark.process
def test_memory_of_one_that_has_ended_is_nothing(clocked: TimedModel) -> None:
    """Nor of one that is another program by now: it has none of what was shown any more."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        socket.send_fds(theirs, [b"x"], open_own_memory())
        os._exit(0)
    with ours, theirs:
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 2)
    os.waitpid(pid, 0)
    memory = Memory(descriptors)
    try:
        with pytest.raises(Unreadable):
            read(memory, clocked, made(clocked))
    finally:
        memory.close()


@pytest.mark.parametrize("output", ["call", "look at it"])
def test_what_fails_is_said_in_time_and_raised(clocked: TimedModel, output: str) -> None:
    class Odd(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise ArithmeticError

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if output == "call":
            raise ArithmeticError
        return torch.Tensor._make_subclass(Odd, x)

    other = TimedModel(model, CPU)
    other.slots = clocked.slots
    with pytest.raises(ArithmeticError):
        answered(other)


def test_warming_up_takes_the_slots_in_turn(clocked: TimedModel) -> None:
    called = []
    other = TimedModel(lambda x, y: called.append(x.data_ptr()), CPU)
    other.slots = clocked.slots
    other.warm(3, 0.0)
    addresses = [slot.inputs[0].data_ptr() for slot in clocked.slots.values()]
    assert called == [addresses[number % len(addresses)] for number in range(3)]


def test_a_call_is_rehearsed_on_the_inputs_before(clocked: TimedModel) -> None:
    """Who did so by itself would be faster than who does not. Before the first there are none."""
    seen: list[float] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(x[0, 0].item())
        return double(x, y)

    other = TimedModel(model, CPU)
    other.slots = clocked.slots
    x = other.slots[0].inputs[0]
    x[0, 0] = 7
    made(other, rehearsals=3)
    assert seen == [7]
    made(other, rehearsals=3)
    assert seen == [7] * 5
    x[0, 0] = 8
    made(other, rehearsals=3, within_s=0.0)
    assert seen[5:] == [8, 8], "once, if it takes long"
    other.slots = {0: clocked.slots[1]}
    made(other, rehearsals=3)
    assert len(seen) == 8, "what lies elsewhere was nobody's input yet"


def test_an_output_lives_until_the_next_is_there_and_no_longer(clocked: TimedModel) -> None:
    """Else what a call takes hangs on where the allocator puts its output."""
    outs: list[weakref.ref[torch.Tensor]] = []
    alive: list[list[bool]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        alive.append([reference() is not None for reference in outs])
        outputs = double(x, y)
        outs.append(weakref.ref(outputs[1]))
        return outputs

    other = TimedModel(model, CPU)
    other.slots = clocked.slots
    for _ in range(4):
        made(other)
        other.describe()
    assert alive == [[], [True], [False, True], [False, False, True]]


def test_of_rehearsals_one_output_is_left_when_the_clock_starts(clocked: TimedModel) -> None:
    """To give back the one before takes a while, which who keeps it would be credited with."""
    outs: list[weakref.ref[torch.Tensor]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = double(x, y)
        outs.append(weakref.ref(outputs[1]))
        return outputs

    other = TimedModel(model, CPU)
    other.slots = clocked.slots
    made(other)
    other.describe()
    other.stand_by(StandBy(rehearsals=3, within_s=60.0))
    assert [reference() is not None for reference in outs] == [False, False, False, True]


@pytest.mark.parametrize(("words", "held"), [(7, True), (9 << 20, False)])
def test_warm_calls_hold_as_many_outputs_as_timed_ones(words: int, held: bool) -> None:
    """So the allocator has memory for those before anything is timed; but not for gigabytes."""
    outs: list[weakref.ref[torch.Tensor]] = []
    alive: list[bool] = []

    def model(y: torch.Tensor) -> torch.Tensor:
        alive.append(bool(outs) and outs[-1]() is not None)
        output = torch.empty(words, dtype=torch.int64)
        outs.append(weakref.ref(output))
        return output

    clocked = laid(model, [Y], [torch.empty(words, dtype=torch.int64)])
    clocked.warm(3, 0.0)
    assert alive == [False, held, held]
    assert (outs[-1]() is not None) == held


def test_a_view_of_much_memory_does_not_hold_it(clocked: TimedModel) -> None:
    outs: list[weakref.ref[torch.Tensor]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = 2 * x.t(), torch.empty(9 << 20, dtype=torch.int64)[:7]
        outs.append(weakref.ref(outputs[1]))
        return outputs

    other = TimedModel(model, CPU)
    other.slots = clocked.slots
    made(other)
    assert outs[0]() is not None
    other.describe()
    assert outs[0]() is None


@dataclasses.dataclass
class Result:
    mean: torch.Tensor
    count: int


def test_the_order_of_keys_means_nothing_and_a_dataclass_is_its_fields() -> None:
    """Of outputs. Arguments are handed on as they are."""
    plain = {"mean": X, "count": 3}
    other = {"count": 3, "mean": X}
    trees = [pack(value, [], pickling=False) for value in (plain, other, Result(X, 3))]
    assert all(same_shape(trees[0], tree) is None for tree in trees)
    assert same_shape(trees[0], pack({"mean": X, "counts": 3}, [], pickling=False))
    tensors: list[torch.Tensor] = []
    pack({2: X, "b": X[:1], "a": X[:2]}, tensors, pickling=False)
    assert [len(t) for t in tensors] == [6, 2, 1]
    assert list(unpack(pack(other, [], pickling=True), [X], unpickling=False)) == ["count", "mean"]


def returning(
    output: Any, owned: list[bool], inputs: list[torch.Tensor] | None = None
) -> tuple[list[Any], TimedModel]:
    """What it has returned, in order."""
    made: list[Any] = []

    def model(*given: torch.Tensor) -> Any:
        made.append(output(*given))
        return made[-1]

    shown = output(*(inputs or [X]))
    outputs = [shown] if isinstance(shown, torch.Tensor) else list(shown)
    laid_out = laid(model, inputs or [X], outputs)
    clocked = TimedModel(model, CPU, owned)
    clocked.slots = laid_out.slots
    made.clear()
    return made, clocked


def test_what_is_given_up_is_written_over() -> None:
    """Not what is held while the next call is made, nor what was timed before it is looked at."""
    made, clocked = returning(lambda x: (x + 1, x > 0, x.to(torch.int32)), [True] * 3)
    clocked.warm(3, 0.0)
    answered(clocked)
    floats, booleans, integers = made[0]
    assert floats.isnan().all()
    assert torch.equal(booleans, ~(X > 0))
    assert torch.equal(integers, ~X.to(torch.int32))
    assert torch.equal(made[-1][0], X + 1)
    clocked.describe()
    assert torch.equal(made[-1][0], X + 1)
    answered(clocked, rehearsals=2)
    assert all(each[0].isnan().all() for each in made[:-2])
    clocked.forget()
    assert all(each[0].isnan().all() for each in made)


def test_trials_write_over_what_they_have_copied() -> None:
    made, clocked = returning(lambda x: x + 1, [True])
    clocked.run(Run(slot=0, seed=1, then=[1, 1]))
    assert all(each.isnan().all() for each in made)
    assert torch.equal(clocked.slots[0].outputs[0], X + 1)


@pytest.mark.parametrize("output", [*OUTPUTS, "input", "part-of-it", "kept"])
def test_what_is_no_ones_to_write_to_stays(output: str) -> None:
    """Inputs' memory, what is not owned, and what has no places of its own; nothing raises."""
    more = {"input": lambda x: x, "part-of-it": lambda x: x[1:], "kept": lambda x: kept}
    kept, given = torch.ones(3), X.clone()
    way = {**OUTPUTS, **more}[output]
    clocked = returning(way, [output != "kept"], [given])[1]
    clocked.warm(3, 0.0)
    clocked.forget()
    assert torch.equal(clocked.slots[0].inputs[0], X)
    assert kept.isfinite().all()


def test_who_watches_sees_nothing_but_calls() -> None:
    made, clocked = returning(lambda x: x + 1, [True])
    clocked.repeat(3)
    assert not any(each.isnan().any() for each in made)


def test_of_what_is_large_an_eighth_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (delivery, overwriting):
        monkeypatch.setattr(module, "MAX_OVERWRITTEN", 1000)
    small, large, seen = torch.ones(250), torch.ones(3, 160), set()
    for _ in range(30):
        small.fill_(1), large.fill_(1)
        overwriting.write_over(delivery.reclaimable([small, large.t()], [True, True], []))
        assert small.isnan().all()
        assert int(large.isnan().sum()) == 3 * 20
        seen.add(int(large[0].isnan().nonzero()[0]))
    assert len(seen) > 5


def test_what_the_end_of_an_output_does_to_it_is_undone() -> None:
    """A finalizer's work is in no call's time."""
    kept: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        kept.append(x + 1)
        output = kept[-1].view(-1)
        weakref.finalize(output, kept[-1].fill_, 7.0)
        return output

    clocked = TimedModel(model, CPU, [True])
    clocked.slots = laid(model, [X], [X.view(-1)]).slots
    kept.clear()
    clocked.warm(4, 0.0)
    answered(clocked, rehearsals=2)
    assert all(each.isnan().all() for each in kept[:3])
    kept.clear()
    clocked.run(Run(slot=0, seed=1, then=[0, 0]))
    assert len(kept) == 3
    assert all(each.isnan().all() for each in kept)
