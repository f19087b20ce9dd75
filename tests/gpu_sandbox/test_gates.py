"""Batches behind gates, with this processor for a device: who may see what when, and what is held
against what. The kernels themselves are in ``tests/gpu/test_sealing_cuda.py``."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch

from gpu_sandbox.cuda import gate_kernels
from gpu_sandbox.cuda.gate_kernels import Kernels
from gpu_sandbox.ipc.values import Plain, Sequence, TensorAt
from gpu_sandbox.ipc.verifier_messages import Differs, Finding, Forged
from gpu_sandbox.ipc.worker_messages import Gate, Leaf, Place, Ran, Recall, Time, Timed
from gpu_sandbox.tensors.gate_channel import GateChannel
from gpu_sandbox.tensors.gate_layout import KEY_BYTES, bytes_of_calls
from gpu_sandbox.tensors.memory_layout import reported_stride
from gpu_sandbox.tensors.pytree import numbers
from gpu_sandbox.tensors.shared_arena import Arena, Layout
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.timing import gates
from gpu_sandbox.verifier.timing.gates import GateBuffers, GatedBatches
from gpu_sandbox.verifier.worker_link.input_placement import Turn
from gpu_sandbox.worker import gated_calls
from gpu_sandbox.worker.backends.cuda import CudaBackend
from gpu_sandbox.worker.outputs import Slot
from gpu_sandbox.worker.timed_calls import TimedModel

CPU = torch.device("cpu")
OUT = 2
"""The keystream of outputs."""
SHAPES = ((17, 33), (5,))


class Ended(Exception):
    pass


class ProcessorKernels(Kernels):
    """Done at once, by a processor, instead of queued. What is asked of them is as it ever is."""

    def __init__(self) -> None:
        self._taken = (ctypes.c_uint8 * KEY_BYTES)()
        self.taken_at = ctypes.addressof(self._taken)

    def launch(self, name: str, stream: int, grid: tuple[int, int, int], *values: int) -> None:
        match name:
            case "take":
                self._take(*values)
            case "put":
                self._put(*values)
            case "seal":
                self._seal(grid[1], *values)
            case "digest":
                self._digest(grid[1], grid[0], *values)

    def _take(self, counter_at: int, least: int, key_at: int) -> None:
        while ctypes.c_int32.from_address(counter_at).value < least:
            time.sleep(0)
        ctypes.memmove(self.taken_at, key_at, KEY_BYTES)

    def _put(self, source: int, target: int, size: int, first: int, key_at: int) -> None:
        _mix(OUT, ctypes.string_at(key_at, KEY_BYTES), first, source, target, size)

    def _seal(
        self, rounds: int, at: int, blocks: int, calls: int, stride: int, key_at: int, domain: int
    ) -> None:
        for number in range(rounds):
            key = ctypes.string_at(key_at + number * KEY_BYTES, KEY_BYTES)
            for k in range(calls):
                here = at + (number * calls + k) * stride
                _mix(domain, key, k * blocks, here, here, 64 * blocks)

    def _digest(
        self, rounds: int, groups: int, at: int, blocks: int, calls: int, stride: int, into: int
    ) -> None:
        size = 32 * groups
        for number in range(rounds):
            starts = [at + (number * calls + k) * stride for k in range(calls)]
            seen = b"".join(ctypes.string_at(start, 64 * blocks) for start in starts)
            ctypes.memmove(into + number * size, hashlib.shake_128(seen).digest(size), size)


def _mix(domain: int, key: bytes, first: int, source: int, target: int, size: int) -> None:
    """Each block of 64 bytes with its part of the keystream."""
    blocks = range(first, first + -(-size // 64))
    keystream = b"".join(
        hashlib.shake_128(key + bytes([domain]) + block.to_bytes(8, "little")).digest(64)
        for block in blocks
    )[:size]
    mixed = zip(ctypes.string_at(source, size), keystream, strict=True)
    ctypes.memmove(target, bytes(a ^ b for a, b in mixed), size)


class Worker:
    """A worker's clock in a thread of its own, with a peer's face. ``watch`` is called when all
    inputs are there and no key is, ``afterwards`` when it is done."""

    call_s = 5.0
    queued = unqueued = 0
    turn = Turn(0, [], [])

    def __init__(self, model: Callable[..., Any]) -> None:
        self.clocked = TimedModel(model, CPU)
        self.clocked._backend = CudaBackend(torch.device("cuda"))
        self.clocked.kernels = ProcessorKernels()
        self.watch: Callable[[dict[int, Slot]], None] = lambda slots: None
        self.afterwards: Callable[[dict[int, Slot]], None] = lambda slots: None
        self.recall_trees: list[int] = []
        self._arena: Arena | None = None
        self._host: Arena | None = None
        self.answering: Timed | None = None
        self._thread = threading.Thread()

    def ended(self, finding: Finding) -> Exception:
        return Ended(finding)

    def give_kernels(self, image: bytes) -> None: ...

    def lay(self, layout: Layout, cases: list[Case]) -> Turn:
        self._arena = arena = self._arena or Arena.create(layout.total_bytes, CPU)
        for number, (ins, outs) in enumerate(zip(layout.inputs, layout.outputs, strict=True)):
            views = arena.views(ins)
            place = Place(slot=number, args=None, inputs=ins, outputs=outs)
            self.clocked.place(number, Slot(views, views, arena.views(outs), arena, place))
        self.turn = Turn(0, layout.inputs, layout.outputs)
        return self.turn

    def bytes_of(self, places: Any) -> torch.Tensor:
        assert self._arena is not None
        return bytes_of_calls(self._arena, places)

    def share_host(self, size: int) -> Arena:
        self._host = self._host or Arena.create(size, CPU)
        return self._host

    def send(self, request: Time, stage: str) -> None:
        self.watch(self.clocked.slots)
        self._thread = threading.Thread(target=self._work, args=(request,), daemon=True)
        self._thread.start()

    def _work(self, request: Time) -> None:
        self.answering = self.clocked.time(request, self._host)
        self.afterwards(self.clocked.slots)

    def said_something(self) -> bool:
        return not self._thread.is_alive()

    def take(self, expected: type[Timed], stage: str) -> Timed:
        self._thread.join(10)
        assert self.answering is not None
        return self.answering

    def ask(self, request: Recall, expected: type[Ran], stage: str) -> Ran:
        self.recall_trees.append(request.call)
        return self.clocked.recall(request)


class Events:
    """Of a device on whose one stream all is done at once."""

    def stream(self) -> int:
        return 0

    def compiled_kernels(self) -> bytes:
        return b""

    def kernels(self) -> ProcessorKernels:
        return ProcessorKernels()


@pytest.fixture(autouse=True)
def processor(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(cuda_stream=0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    monkeypatch.setattr(gates, "events_of", lambda device: Events())
    monkeypatch.setattr(gates, "_QUEUE_S", (0.01,) * 3)
    monkeypatch.setattr(gated_calls, "seed_torch", lambda seed, device: None)
    monkeypatch.setattr(
        CudaBackend,
        "write_behind",
        lambda _, stream, at, number: ctypes.memmove(at, ctypes.byref(ctypes.c_int32(number)), 4),
    )


def gated(gate: Gate, calls: int, *outputs: torch.Tensor, mutates: bool = False) -> GatedBatches:
    expected = [SimpleNamespace(native=tensor) for tensor in outputs]
    first = SimpleNamespace(tensors=drawn(), expected=expected)
    room = GateBuffers(first, CPU, calls + 2, left=mutates).for_calls(calls)
    made = GatedBatches(
        SimpleNamespace(margins=None, mutates=mutates, has_second_place=False), first, room, gate
    )
    made.cases = [SimpleNamespace(tensors=drawn()) for _ in range(calls)]
    return made


def drawn() -> list[torch.Tensor]:
    return [torch.rand(shape) for shape in SHAPES]


def doubled(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return x * 2


GATES = pytest.mark.parametrize(
    ("gate", "calls"), [("once", 1), ("once", 5), ("each", 1), ("each", 5)]
)


@GATES
def test_calls_get_their_inputs_and_leave_their_outputs(gate: Gate, calls: int) -> None:
    behind, worker = gated(gate, calls, torch.rand(17, 33)), Worker(doubled)
    for empty in (True, False, False):
        released = behind.passed(worker, 7, range(calls), empty=empty)
        for case, (output,) in zip(behind.cases, released.outputs, strict=True):
            assert torch.equal(output, case.tensors[0] * 2) or empty
    assert released.wall_ns > 0


@GATES
def test_no_input_can_be_read_before_its_key(gate: Gate, calls: int) -> None:
    behind, worker = gated(gate, calls, torch.rand(17, 33)), Worker(doubled)
    seen: list[torch.Tensor] = []
    worker.watch = lambda slots: seen.extend(s.inputs[0].clone() for s in slots.values())
    behind.passed(worker, 7)
    assert len(seen) == calls
    for got, case in zip(seen, behind.cases, strict=True):
        assert (got == case.tensors[0]).float().mean() < 0.05


@GATES
def test_no_output_lies_in_its_place_as_it_was_returned(gate: Gate, calls: int) -> None:
    """Else whoever computes it there saves the delivery, which is taken off every wall."""
    behind, worker = gated(gate, calls, torch.rand(17, 33)), Worker(doubled)
    placed: list[torch.Tensor] = []
    worker.afterwards = lambda slots: placed.extend(s.outputs[0].clone() for s in slots.values())
    released = behind.passed(worker, 7, range(calls))
    assert len(placed) == calls
    for there, (output,) in zip(placed, released.outputs, strict=True):
        assert (there == output).float().mean() < 0.05


@GATES
def test_an_output_that_changes_after_its_call_was_done_is_found_out(
    gate: Gate, calls: int
) -> None:
    behind, worker = gated(gate, calls, torch.rand(17, 33)), Worker(doubled)

    def change(slots: dict[int, Slot]) -> None:
        slots[calls - 1].outputs[0].view(torch.uint8)[3, 4].bitwise_xor_(1)

    worker.afterwards = change
    with pytest.raises(Ended) as raised:
        behind.passed(worker, 7)
    assert isinstance(raised.value.args[0], Differs)


@GATES
def test_outputs_of_no_size_are_committed_to_as_well(gate: Gate, calls: int) -> None:
    behind, worker = gated(gate, calls, torch.rand(0)), Worker(lambda x, y: y[:0])
    released = behind.passed(worker, 7, [0])
    assert released.outputs[0][0].numel() == 0


def with_sum(x: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, float, None]:
    return x * 2, x.sum().item(), None


@GATES
def test_plain_values_of_chosen_calls_are_there_afterwards(gate: Gate, calls: int) -> None:
    behind, worker = gated(gate, calls, torch.rand(17, 33)), Worker(with_sum)
    chosen = list(range(calls))[::-1]
    released = behind.passed(worker, 7, chosen)
    assert [numbers(tree) for tree in released.trees] == [
        [behind.cases[number].tensors[0].sum().item(), 0.0] for number in chosen[:2]
    ]
    assert worker.recall_trees == chosen[1:2], "the last call's are told of anyway"
    assert behind.passed(worker, 7, empty=True).trees == []


@GATES
def test_plain_values_that_change_after_their_call_was_done_are_found_out(
    gate: Gate, calls: int
) -> None:
    """What is told afterwards is what was digested, of the call that nobody was told of, too."""
    for late in {0, calls - 1}:
        behind, worker = gated(gate, calls, torch.rand(17, 33)), Worker(with_sum)

        def change(slots: dict[int, Slot], late: int = late, worker: Worker = worker) -> None:
            other = Sequence(
                kind="tuple", items=[TensorAt(index=0), Plain(value=0.5), Plain(value=None)]
            )
            worker.clocked._trees[late] = other
            if late == calls - 1:
                assert worker.answering is not None
                last = msgspec.structs.replace(worker.answering.last, tree=other)
                worker.answering = msgspec.structs.replace(worker.answering, last=last)

        worker.afterwards = change
        with pytest.raises(Ended) as raised:
            behind.passed(worker, 7, range(calls))
        assert isinstance(raised.value.args[0], Forged)


def test_where_all_plain_values_are_the_same_nobody_is_asked() -> None:
    behind, worker = gated("once", 5, torch.rand(17, 33)), Worker(lambda x, _: (x * 2, None))
    released = behind.passed(worker, 7, range(5))
    assert len(released.trees) == 2
    assert worker.recall_trees == []


def stepped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(0.5)
    return x.add_(1.0) * 2


@GATES
def test_what_calls_leave_of_their_inputs_is_committed_to_as_well(gate: Gate, calls: int) -> None:
    behind = gated(gate, calls, torch.rand(17, 33), mutates=True)
    worker = Worker(stepped)
    for number in range(calls):
        left = behind.passed(worker, 7, [number]).mutated_inputs
        x, y = behind.cases[number].tensors
        assert torch.equal(left[0], x + 1.0)
        assert torch.equal(left[1], y * 0.5)
    assert behind.passed(worker, 7, empty=True).mutated_inputs == []

    def step_late(slots: dict[int, Slot]) -> None:
        slots[calls - 1].inputs[1].mul_(0.5)

    worker.afterwards = step_late
    with pytest.raises(Ended) as raised:
        behind.passed(worker, 7, [0])
    assert isinstance(raised.value.args[0], Differs)


def sliced(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return (x * 2)[:, :21]


def turned(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return (x * 2).t()


def real_part(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return torch.complex(x * 2, x).real


@pytest.mark.parametrize("reference", [sliced, turned, real_part])
@pytest.mark.parametrize("lies_otherwise", [False, True])
def test_outputs_may_lie_as_the_references_or_otherwise(
    reference: Callable[..., torch.Tensor], lies_otherwise: bool
) -> None:
    def candidate(*inputs: torch.Tensor) -> torch.Tensor:
        made = reference(*inputs)
        return made.contiguous() if lies_otherwise else made

    behind, worker = gated("once", 3, reference(*drawn())), Worker(candidate)
    for case, (output,) in zip(
        behind.cases, behind.passed(worker, 7, range(3)).outputs, strict=True
    ):
        assert torch.equal(output, reference(*case.tensors))


def test_an_output_that_is_dense_is_put_as_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever called would need no copy, either."""
    behind = gated("once", 3, turned(*drawn()))
    worker = Worker(lambda x, y: turned(x, y).contiguous())
    monkeypatch.setattr(gate_kernels, "_relaid", lambda tensor, to: pytest.fail("copied"))
    outputs = behind.passed(worker, 7, range(3)).outputs
    for case, (output,) in zip(behind.cases, outputs, strict=True):
        assert torch.equal(output, turned(*case.tensors))


def test_what_belongs_in_order_is_read_in_order_whatever_a_worker_says() -> None:
    """Else a transposition could be told instead of done."""
    behind, worker = gated("once", 1, torch.rand(33, 17)), Worker(turned)
    (output,), *_ = behind.passed(worker, 7, [0]).outputs
    assert torch.equal(output, turned(*behind.cases[0].tensors))  # put in order
    memory = torch.arange(17 * 33).view(33, 17)
    leaf = Leaf(
        shape=(33, 17), dtype="int64", device="cpu", written=True, aliases_input=False,
        overlapping=False, stride=(1, 33),
    )  # fmt: skip
    assert reported_stride(memory, leaf) == (17, 1)
    assert reported_stride(memory.view(17, 33).t(), leaf) == (1, 33)


def test_outputs_that_lie_differently_from_call_to_call_are_read_right() -> None:
    made = itertools.count()

    def forward(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return (x * 2).t().contiguous().t() if next(made) % 2 else x * 2

    behind, worker = gated("once", 4, torch.rand(17, 33)), Worker(forward)
    for case, (output,) in zip(
        behind.cases, behind.passed(worker, 7, range(4)).outputs, strict=True
    ):
        assert torch.equal(output, case.tensors[0] * 2)


@pytest.mark.parametrize(
    "told", [(), (1,), (0, 1), (33, -1), (66, 2), (1 << 62, 1), (1, 17), (33, 1)]
)
def test_whatever_a_worker_says_is_read_within_the_place(told: tuple[int, ...]) -> None:
    memory = torch.arange(3 * 17 * 33).view(3, 17, 33)
    leaf = Leaf(
        shape=(17, 33), dtype="int64", device="cpu", written=True, aliases_input=False,
        overlapping=False, stride=told,
    )  # fmt: skip
    read = memory[1].as_strided((17, 33), reported_stride(memory[1], leaf))
    assert sorted(read.flatten().tolist()) == memory[1].flatten().tolist()
    assert read.shape == (17, 33)


@pytest.mark.parametrize("reference", [doubled, sliced, turned, real_part])
def test_nothing_more_is_done_with_no_outputs_than_with_the_references(
    reference: Callable[..., torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever leaves it out would have as much time to hide in."""
    behind, worker = gated("once", 3, reference(*drawn())), Worker(reference)
    copied: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        gate_kernels, "_relaid", lambda tensor, to: copied.append(tensor.stride()) or tensor
    )
    for empty in (True, False):
        behind.passed(worker, 7, empty=empty)
    assert not copied


def test_a_dimension_of_one_lies_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = gated("once", 1, torch.rand(17, 1).as_strided((17, 1), (1, 17)))
    worker = Worker(lambda x, _: x[:, :1].contiguous())
    monkeypatch.setattr(gate_kernels, "_relaid", lambda tensor, to: pytest.fail("copied"))
    (output,), *_ = behind.passed(worker, 7, [0]).outputs
    assert torch.equal(output, behind.cases[0].tensors[0][:, :1])


def test_what_has_no_memory_is_put_all_the_same() -> None:
    behind = gated("once", 1, torch.rand(17, 33))
    worker = Worker(lambda x, _: torch._efficientzerotensor((17, 33)))
    (output,), *_ = behind.passed(worker, 7, [0]).outputs
    assert not output.any()


class Watching(Worker):
    """Keeps what lies in its reach before a gate opens, and the keys that it then had."""

    def __init__(self, model: Callable[..., Any]) -> None:
        super().__init__(model)
        self.reached: list[bytes] = []
        self.keys: list[bytes] = []
        self.watch = lambda slots: self.reached.append(self._all(slots))
        self.afterwards = lambda slots: self.keys.append(self._given(len(slots)))

    def _all(self, slots: dict[int, Slot]) -> bytes:
        return b"".join(bytes(view.numpy()) for s in slots.values() for view in s.inputs)

    def _given(self, calls: int) -> bytes:
        assert self._host is not None
        return ctypes.string_at(GateChannel(self._host, calls).key_at(0), calls * KEY_BYTES)


@GATES
def test_both_workers_get_the_same_once_and_then_nothing_of_it_comes_again(
    gate: Gate, calls: int
) -> None:
    behind = gated(gate, calls, torch.rand(17, 33))
    workers = [Watching(doubled), Watching(doubled)]
    for _ in range(2):
        behind.cases = [SimpleNamespace(tensors=drawn()) for _ in range(calls)]
        for worker in workers:
            outputs = behind.passed(worker, 7, range(calls)).outputs
            for case, (output,) in zip(behind.cases, outputs, strict=True):
                assert torch.equal(output, case.tensors[0] * 2)
    first, second = workers
    assert first.reached == second.reached
    assert first.keys == second.keys
    given = [key[k : k + KEY_BYTES] for key in first.keys for k in range(0, len(key), KEY_BYTES)]
    used = {key for key in given if any(key)}
    assert len(used) == 2 * (calls if gate == "each" else 1)
    assert first.reached[0] != first.reached[1]


def test_gates_that_share_memory_take_turns_in_it() -> None:
    outputs = [SimpleNamespace(native=torch.rand(17, 33))]
    first = SimpleNamespace(tensors=drawn(), expected=outputs)
    room, task = (
        GateBuffers(first, CPU, 4),
        SimpleNamespace(margins=None, mutates=False, has_second_place=False),
    )
    ways: dict[Gate, int] = {"once": 4, "each": 3}
    both = [GatedBatches(task, first, room.for_calls(calls), way) for way, calls in ways.items()]
    for behind in both:
        behind.cases = [SimpleNamespace(tensors=drawn()) for _ in range(behind.calls)]
    workers = [Worker(doubled), Worker(doubled)]
    for _ in range(2):
        for behind, worker in zip(both, workers, strict=True):
            released = behind.passed(worker, 7, range(behind.calls))
            for case, (output,) in zip(behind.cases, released.outputs, strict=True):
                assert torch.equal(output, case.tensors[0] * 2)


def test_a_sealing_that_fails_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    behind, worker = gated("once", 2, torch.rand(17, 33)), Worker(doubled)

    def fail(events: Events) -> ProcessorKernels:
        raise RuntimeError("no such kernel")

    with monkeypatch.context() as broken:
        broken.setattr(Events, "kernels", fail)
        with pytest.raises(RuntimeError, match="no such kernel"):
            behind.passed(worker, 7)
    (output,), *_ = behind.passed(worker, 7, range(2)).outputs
    assert torch.equal(output, behind.cases[0].tensors[0] * 2)


def test_what_is_measured_beside_calls_spoils_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """It works where the sealed inputs lie, an odd number of times."""
    behind, worker = gated("once", 2, torch.rand(17, 33)), Worker(doubled)
    behind.passed(worker, 7)

    def read(events: Events, work: Callable[[], None]) -> float:
        work()
        return 9.0

    monkeypatch.setattr(Events, "read_ns", read, raising=False)
    assert behind.crypt_ns(2.0) == 7.0
    (output,), *_ = behind.passed(worker, 7, range(2)).outputs
    assert torch.equal(output, behind.cases[0].tensors[0] * 2)
