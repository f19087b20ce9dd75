"""The CPU's release, from the verifier's side: what is on the clock, and what is read when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from gpu_sandbox.confine.freeze import Frozen
from gpu_sandbox.ipc.cpu_call_messages import Answer, Where
from gpu_sandbox.ipc.values import Plain, Sequence
from gpu_sandbox.ipc.verifier_messages import Forged
from gpu_sandbox.ipc.worker_messages import Describe, Done, Failed, Leaf, Ran
from gpu_sandbox.tensors.pytree import pack, plain_digest
from gpu_sandbox.tensors.shared_arena import Layout
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.batches import Settings, TimedBatch
from gpu_sandbox.verifier.timing.cpu_call import SingleCalls
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.input_placement import Turn
from gpu_sandbox.verifier.worker_link.requests import Ended
from gpu_sandbox.verifier.worker_link.worker_memory import Unreadable
from tests.gpu_sandbox.sources import ADD_RELU

SLOW_S, CLAIM_NS = 0.05, 2_000


class Recorder:
    """In the place of a ``Peer``: what is asked of it. ``used_ns``: though it is stopped."""

    def __init__(self, said: bytes, used_ns: int = 0) -> None:
        self.seen: list[str] = []
        self.ended = Ended
        self.read: Callable[..., torch.Tensor] = self._read
        self.written = True
        self.leaves = 1
        self.in_order = True
        self.inputs_intact = True
        self.tree: Any = None
        self.handled_ns = self.copied_ns = 0
        self._said = said
        self._used_ns = used_ns

    def lay(self, layout: Layout, *_: Any) -> Turn:
        self.seen.append("lay")
        self.turn = Turn(0, layout.inputs[:1], layout.outputs[:1])
        return self.turn

    def ask(self, request: Any, *_: Any) -> Any:
        self.seen.append(type(request).__name__)
        leaf = Leaf(
            shape=(64, 128),
            dtype="float32",
            device="cpu",
            written=self.written,
            aliases_input=False,
            overlapping=False,
            in_order=self.in_order,
        )
        leaves = [leaf] * self.leaves
        if isinstance(request, Describe):
            return Ran(
                tree=self.tree,
                leaves=leaves,
                handled_ns=self.handled_ns,
                copied_ns=self.copied_ns,
            )
        return Done()

    @contextmanager
    def stopped(self) -> Iterator[Frozen]:
        self.seen.append("stop")
        time.sleep(SLOW_S / 10)
        yield Frozen({1: len(self.seen)}, lambda: (set(), set()), time.perf_counter_ns())
        self.seen.append("go on")
        time.sleep(SLOW_S / 10)

    def used_while(self, still: Frozen) -> int:
        return self._used_ns

    @contextmanager
    def spoiled(self, *_: Any) -> Iterator[None]:
        self.seen.append("spoil")
        yield
        self.seen.append("put right")

    def put(self, *_: Any) -> None:
        self.seen.append("put")
        time.sleep(SLOW_S)

    def send_bytes(self, *_: Any) -> None:
        self.seen.append("seed")

    def receive_bytes(self, size: int, stage: str) -> bytes:
        self.seen.append("answer")
        assert size == len(self._said)
        return self._said

    def take(self, expected: type[Failed], stage: str) -> None:
        raise Ended(Forged(reason=f"as {expected.__name__} says"))

    def intact(self, *_: Any) -> bool:
        self.seen.append("look at inputs")
        return self.inputs_intact

    def mapped_bytes(self, outputs: list[tuple[Any, Where]]) -> int:
        self.seen += [f"look at pages of {found.address}" for _, found in outputs]
        return MAPPED

    def _read(self, spot: Any, found: Where) -> torch.Tensor:
        self.seen.append(f"read at {found.address}")
        time.sleep(SLOW_S)
        return torch.zeros(64, 128)


FORM, MAPPED = Answer([2]), 8192
SAID = FORM.encode(CLAIM_NS, [Where(4096, (128, 1))])


@pytest.fixture
def release(tmp_path: Path) -> Callable[..., TimedBatch]:
    (tmp_path / "task.py").write_text(ADD_RELU)
    task = Task(str(tmp_path / "task.py"), torch.device("cpu"), Seeds(3))
    first: Case = task.draw("trial", 0)
    task.solve(first, exact=True)
    calls = SingleCalls(task, first, torch.device("cpu"))
    calls.cases = [first]
    calls._eviction = cast(Any, SimpleNamespace(evict=lambda: None))

    def one(peer: Recorder, chosen: list[int]) -> TimedBatch:
        return calls.run(cast(Peer, peer), Settings(), 3, chosen)

    return one


def test_inputs_come_and_outputs_are_read_while_the_worker_lies_still(
    release: Callable[..., TimedBatch],
) -> None:
    peer = Recorder(SAID)
    released = release(peer, [0])
    before, call = ["lay", "StandBy", "stop", "put", "go on"], ["seed", "answer"]
    looks = ["look at pages of 4096", "spoil", "read at 4096", "put right", "look at inputs"]
    assert peer.seen == [*before, *call, "stop", *looks, "go on", "Describe"]
    assert [len(outputs) for outputs in released.outputs] == [1]
    assert released.reported_ns == CLAIM_NS
    assert released.mapped_bytes == MAPPED


def test_neither_is_on_the_clock_but_the_stop_and_being_let_go_are(
    release: Callable[..., TimedBatch],
) -> None:
    """Who makes those last, and works meanwhile, is not to do so for nothing."""
    released = release(Recorder(SAID), [0])
    assert SLOW_S / 5 <= released.wall_ns / 1e9 < SLOW_S
    assert released.transfer_ns == 0


def test_what_is_used_of_a_processor_all_the_same_is_on_the_clock(
    release: Callable[..., TimedBatch],
) -> None:
    used_ns = 10**10
    released = release(Recorder(SAID, used_ns), [0])
    assert released.wall_ns > 2 * used_ns
    assert released.cpu_ns > 2 * used_ns


def test_nothing_is_read_of_a_call_that_was_not_chosen(release: Callable[..., TimedBatch]) -> None:
    peer = Recorder(SAID)
    assert release(peer, []).outputs == []
    assert not any("read" in each or "look" in each for each in peer.seen)


@pytest.mark.parametrize("intact", [True, False])
def test_inputs_are_what_they_were_when_the_worker_lay_still(
    release: Callable[..., TimedBatch], intact: bool
) -> None:
    """It could put them back afterwards."""
    peer = Recorder(SAID)
    peer.inputs_intact = intact
    assert release(peer, [0]).intact == intact


def test_a_failure_is_told_by_its_frame(release: Callable[..., TimedBatch]) -> None:
    peer = Recorder(FORM.failed)
    with pytest.raises(Ended) as ended:
        release(peer, [0])
    assert ended.value.finding == Forged(reason="as Failed says")
    assert peer.seen[-1] == "go on"


@pytest.mark.parametrize(("written", "leaves"), [(True, 1), (False, 1), (True, 0)])
def test_what_can_not_be_read_was_forged_unless_it_is_said_not_to_be_there(
    release: Callable[..., TimedBatch], written: bool, leaves: int
) -> None:
    """Which the verdict then gives the reason of."""

    def nowhere(*_: Any) -> list[torch.Tensor]:
        raise Unreadable

    peer = Recorder(SAID)
    peer.read, peer.written, peer.leaves = nowhere, written, leaves
    if not (written and leaves):
        assert release(peer, [0]).outputs == []
        return
    with pytest.raises(Ended) as ended:
        release(peer, [0])
    assert isinstance(ended.value.finding, Forged)


def test_elements_that_share_memory_are_seen_by_their_strides(
    release: Callable[..., TimedBatch],
) -> None:
    """Or who takes the worker over need not write all of them."""
    peer = Recorder(SAID)
    peer.read = lambda *_: torch.zeros(1, 128).expand(64, 128)
    with pytest.raises(Ended) as ended:
        release(peer, [0])
    assert isinstance(ended.value.finding, Forged)


@pytest.mark.parametrize("in_order", [True, False])
def test_elements_in_another_order_are_seen_by_their_strides(
    release: Callable[..., TimedBatch], *, in_order: bool
) -> None:
    """Or who takes the worker over could leave a transposition out."""
    peer = Recorder(FORM.encode(CLAIM_NS, [Where(4096, (1, 64))]))
    peer.in_order = in_order
    if not in_order:
        assert not release(peer, [0]).last.leaves[0].in_order
        return
    with pytest.raises(Ended) as ended:
        release(peer, [0])
    assert isinstance(ended.value.finding, Forged)


@pytest.mark.parametrize("later", [0.5, 0.0, True, "0.5", None])
def test_plain_values_are_those_that_it_answered_with(
    release: Callable[..., TimedBatch], later: Any
) -> None:
    """Or they are worked out when the clock has stopped."""
    made = [torch.zeros(1), {"mean": 0.5}]
    said = FORM.encode(
        CLAIM_NS, [Where(4096, (128, 1))], plain_digest(pack(made, [], pickling=False))
    )
    peer = Recorder(said)
    peer.tree = pack([torch.zeros(1), {"mean": later}], [], pickling=False)
    if later == 0.5:
        assert release(peer, [0]).last.tree == peer.tree
        return
    with pytest.raises(Ended) as ended:
        release(peer, [0])
    assert isinstance(ended.value.finding, Forged)


def test_an_output_nested_deeper_than_python_recurses_is_a_forgery(
    release: Callable[..., TimedBatch],
) -> None:
    """msgspec reads such a one from Python 3.12 on."""
    peer = Recorder(SAID)
    peer.tree = Plain(value=1)
    for _ in range(5000):
        peer.tree = Sequence(kind="list", items=[peer.tree])
    with pytest.raises(Ended) as ended:
        release(peer, [0])
    assert isinstance(ended.value.finding, Forged)
    assert "nested" in ended.value.finding.reason
    while isinstance(peer.tree, Sequence):  # or to free it recurses, too
        peer.tree = peer.tree.items[0]


def test_what_telling_of_the_output_takes_beyond_a_little_is_no_rest(
    release: Callable[..., TimedBatch],
) -> None:
    """It grows with what is returned, and a worker can do without."""
    peer = Recorder(SAID)
    peer.handled_ns = 20_000
    little = release(peer, [0])
    assert (little.output_ns, little.overhead_ns) == (0, little.wall_ns - CLAIM_NS)
    peer.handled_ns = 1_025_000
    much = release(peer, [0])
    assert much.output_ns == 1_000_000
    assert much.overhead_ns == much.wall_ns - CLAIM_NS - 1_000_000
    assert much.describing_ns == 1_000_000
    peer.copied_ns = 400_000
    copied = release(peer, [0])
    assert (copied.output_ns, copied.describing_ns) == (1_000_000, 600_000)
    peer.handled_ns = peer.copied_ns = 10**12
    assert release(peer, [0]).overhead_ns >= 0, "it may say what it likes"
    assert release(peer, [0]).describing_ns == 0


def test_two_outputs_in_one_place_are_seen_by_their_addresses(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(ADD_RELU.replace("a + b)", "a + b), a - b"))
    task = Task(str(tmp_path / "task.py"), torch.device("cpu"), Seeds(3))
    first: Case = task.draw("trial", 0)
    task.solve(first, exact=True)
    calls = SingleCalls(task, first, torch.device("cpu"))
    calls.cases = [first]
    calls._eviction = cast(Any, SimpleNamespace(evict=lambda: None))
    form, size = Answer([2, 2]), 64 * 128 * 4
    for second, same in ((4096 + size, False), (4096 + size - 4, True), (4096, True)):
        places = [Where(4096, (128, 1)), Where(second, (128, 1))]
        peer = Recorder(form.encode(CLAIM_NS, places))
        peer.leaves = 2
        if same:
            with pytest.raises(Ended) as ended:
                calls.run(cast(Peer, peer), Settings(), 3, [0])
            assert "share memory" in str(ended.value.finding)
        else:
            calls.run(cast(Peer, peer), Settings(), 3, [0])
