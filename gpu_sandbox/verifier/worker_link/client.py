"""The verifier's view of its worker: what is asked of it (``requests.py``), the memory that
both see, and that its processes lie still."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import torch

from gpu_sandbox.confine.freeze import Still, Stoppable, Unstoppable
from gpu_sandbox.ipc.cpu_call_messages import Where
from gpu_sandbox.ipc.model_messages import Load, Loaded
from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.ipc.verifier_messages import Forged, WorkerDied
from gpu_sandbox.ipc.worker_messages import (
    ArenaShared,
    Done,
    Lay,
    LoadKernels,
    Place,
    ReleaseMemory,
    ShowMemory,
)
from gpu_sandbox.tensors.bitwise import same_bits
from gpu_sandbox.tensors.gate_layout import bytes_of_calls
from gpu_sandbox.tensors.pytree import pack
from gpu_sandbox.tensors.shared_arena import Arena, Layout, place
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.worker_link.input_placement import Turn, next_slot
from gpu_sandbox.verifier.worker_link.requests import Conversation, Ended
from gpu_sandbox.verifier.worker_link.worker_memory import Memory

_MOST_USED_NS = 1_000_000
"""Of the processor, by a side that is stopped."""
_BYTES_TOLD = 1 << 20
"""Of slots, in one message: one by one they take a GPU's worker longer than a release."""
_SELDOM = 3
"""It may be more: who leaves the processor to stop may have to wait with that."""
_UNSTOPPABLE = Forged(reason="its processes can't be stopped while the baseline is timed")
_NOBODY = Still({}, lambda: (set(), set()), 0)


class Peer(Conversation):
    """One worker, and the arena that it shares with us. ``close`` gives that back.

    ``queued``: so many of its calls could be queued ahead when they were last asked to be, and
    ``queues`` says whether that was all.
    """

    def __init__(
        self,
        sock: socket.socket,
        pid: int,
        device: torch.device,
        call_s: float,
        *,
        reference: bool = False,
    ) -> None:
        super().__init__(sock, call_s, reference=reference)
        self.pid = pid
        self._device = device
        self._backend = backend_of(device)
        self._arena: Arena | None = None
        self._host: Arena | None = None
        self._has_kernels = False
        self.shared_bytes = 0
        """Of the arena that the worker has mapped."""
        self.queued = self.unqueued = 0
        self._layout: tuple[list[list[Spot]], list[list[Spot]]] | None = None
        self._placed: dict[int, Place] = {}
        self.turn = Turn(0, [], [])
        self.called: int | None = None
        """The slot of its last call."""
        self._seen: dict[Spot, torch.Tensor] = {}
        self._memory: Memory | None = None
        self._processes = Stoppable(pid) if self._backend.on_host else None
        self._restless = 0

    @property
    def queues(self) -> bool:
        """Whether its calls were queued ahead when they were last asked to be."""
        return self.unqueued == 0

    def close(self) -> None:
        self._seen.clear()
        for held in (self._arena, self._host, self._memory, self._processes):
            if held is not None:
                held.close()

    @contextmanager
    def stopped(self) -> Iterator[Still]:
        """On the CPU: while the other side is timed, which this one could keep busy, while its
        inputs come, and when it has answered. A GPU is timed by its own clock, and by gates."""
        if self._processes is None:
            yield _NOBODY
            return
        stopping = self._processes.stopped()
        try:
            still = stopping.__enter__()
        except Unstoppable:
            raise self.ended(_UNSTOPPABLE) from None
        except OSError:
            raise self.ended(WorkerDied(stage="bench")) from None
        try:
            yield still
        finally:
            stopping.__exit__(None, None, None)

    def used_while(self, still: Still) -> int:
        """How much of the processor this side has used though it was to lie still, in nanoseconds.
        Ends who does so often."""
        used_ns = still.used_ns()
        self._restless += used_ns > _MOST_USED_NS
        if self._restless > _SELDOM and self.ended is Ended:
            raise self.ended(_UNSTOPPABLE)
        return used_ns

    # --- the arena

    def reserve(self, total_bytes: int) -> Arena:
        """An arena of at least that size. A new one makes all former places invalid."""
        if self._arena is None or total_bytes > self._arena.size:
            self._seen.clear()
            if self._arena is not None:
                self._arena.close()
                self._arena = None  # also if there is no memory for the next one
            self._layout = None
            self._arena = arena = Arena.create(total_bytes, self._device)
            self.send(ArenaShared(total_bytes=arena.size), "share", arena.descriptor)
            self.take(Done, "share")
            self.shared_bytes = arena.size
        return self._arena

    def give_up_arena(self) -> None:
        """The next one is made anew, however small."""
        if self._arena is not None:
            self._seen.clear()
            self._arena.close()
            self._arena = self._layout = None

    def keep_little(self) -> None:
        """Between jobs, of a GPU's memory: who maps what we give back has it still."""
        if self._arena is not None and self._backend.is_much(self._arena.size):
            self.ask(ReleaseMemory(arena=True), Done, "share")
            self.give_up_arena()

    def share_host(self, total_bytes: int) -> Arena:
        """Host memory of at least that size, which a CUDA worker has pinned."""
        if self._host is None or total_bytes > self._host.size:
            if self._host is not None:
                self._host.close()
                self._host = None
            self._host = Arena.create(total_bytes, torch.device("cpu"))
            shared = ArenaShared(total_bytes=self._host.size, host=True)
            self.send(shared, "share", self._host.descriptor)
            self.take(Done, "share")
        return self._host

    def lend(self, tensors: list[torch.Tensor]) -> list[Spot]:
        """Where copies of these lie in the arena, until something else is put there."""
        spots, end = place(tensors, 0)
        arena = self.reserve(end)
        for tensor, view in zip(tensors, arena.views(spots), strict=True):
            view.copy_(tensor)
        self._synchronize()
        return spots

    def give_kernels(self, image: bytes) -> None:
        """Our own, once (``cuda/nvrtc.py``)."""
        if not self._has_kernels:
            self.ask(LoadKernels(image=image), Done, "share")
            self._has_kernels = True

    def bytes_of(self, places: Sequence[list[Spot]]) -> torch.Tensor:
        """The bytes of each call's, in our own view of the arena: (calls, bytes)."""
        return bytes_of_calls(self._need(), places)

    def start_loading(
        self, task: Task, source: str, class_name: str, libraries: list[str], fds: list[int]
    ) -> None:
        """Ask it to import and construct; ``finish_loading`` waits for the answer."""
        tensors: list[torch.Tensor] = []
        tree = pack(task.init, tensors, pickling=True)
        spots = self.lend(tensors)
        self._layout, self.called = None, None
        load = Load(
            source=source,
            class_name=class_name,
            owned=task.owned,
            libraries=libraries,
            device=str(self._device),
            threads=torch.get_num_threads(),
            precision=task.precision,
            weight_seed=task.weight_seed,
            init=tree,
            init_spots=spots,
        )
        if self._processes is not None and self._memory is None:
            self._memory = self._shown_memory()
        self.send(load, "load", *fds)

    def _shown_memory(self) -> Memory:
        """Asked for before there is a candidate: it could show another's."""
        self.send(ShowMemory(), "load")
        return Memory(self.take_fds("load", most=2))

    def finish_loading(self, limit_s: float) -> Loaded:
        return self.take(Loaded, "load", limit_s)

    def lay(self, layout: Layout, cases: Sequence[Case]) -> Turn:
        """Tell the worker of the slots of these cases, where it does not know them yet. Of one
        case, which has more than one slot to choose from, it is not that of the last call."""
        self.reserve(layout.total_bytes)
        alone = len(cases) == 1
        first = next_slot(self.called, len(layout.inputs)) if alone else 0
        last = first + len(cases)
        self._tell_of(layout, dict(enumerate(cases, first)))
        self.turn = Turn(first, layout.inputs[first:last], layout.outputs[first:last])
        self.called = last - 1
        return self.turn

    def lay_beside(self, layout: Layout, others: Sequence[Case]) -> list[int]:
        """Put other cases into the slots behind that of this turn, which are returned."""
        slots = len(layout.inputs)
        behind = [(self.turn.first + number) % slots for number in range(1, slots)]
        beside = dict(zip(behind, others, strict=False))
        self._tell_of(layout, beside)
        for slot, case in beside.items():
            self._copy(case, layout.inputs[slot])
        self._synchronize()
        return list(beside)

    def _tell_of(self, layout: Layout, cases: dict[int, Case]) -> None:
        spots = layout.inputs, layout.outputs
        anew = self._layout != spots
        if anew:
            self._placed.clear()
            self._layout = spots
        fresh: list[Place] = []
        for slot, case in cases.items():
            inputs, outputs = layout.inputs[slot], layout.outputs[slot]
            told = Place(slot=slot, args=case.tree, inputs=inputs, outputs=outputs)
            if self._placed.get(slot) != told:
                fresh.append(told)
                self._placed[slot] = told
        together = _BYTES_TOLD // len(msgspec.msgpack.encode(fresh[0])) + 1 if fresh else 1
        for first in range(0, len(fresh), together):
            places = fresh[first : first + together]
            self.ask(Lay(places=places, anew=anew and not first), Done, "share")

    def put(self, cases: Sequence[Case]) -> None:
        """Copy the inputs of each case to its slot of this turn."""
        for spots, case in zip(self.turn.inputs, cases, strict=True):
            self._copy(case, spots)
        self._synchronize()

    def _copy(self, case: Case, spots: list[Spot]) -> None:
        for tensor, view in zip(case.tensors, self._views(spots), strict=True):
            view.copy_(tensor.detach())

    def scramble(self, spots: list[Spot]) -> None:
        self._need().scramble(spots)
        self._synchronize()

    def taken(self, spots: list[Spot]) -> list[torch.Tensor]:
        """Private copies: what is compared can't be changed while it is."""
        copies = [view.clone() for view in self._views(spots)]
        self._synchronize()
        return copies

    def read(self, spot: Spot, found: Where) -> torch.Tensor:
        """On the CPU: a private copy of an output that lies in its own memory. Raises
        ``Unreadable``."""
        assert self._memory is not None
        return self._memory.read(spot, found)

    @property
    def shows_pages(self) -> bool:
        return self._memory is not None and self._memory.pages is not None

    def mapped_bytes(self, outputs: Sequence[tuple[Spot, Where]]) -> int:
        """On the CPU: how much of these was mapped into place, not written."""
        assert self._memory is not None
        return self._memory.mapped_bytes(outputs)

    @contextmanager
    def spoiled(self, spots: list[Spot]) -> Iterator[None]:
        """Inputs in the arena are others meanwhile, in some places. Of the reference only before:
        an output that shares memory with them here may be one that does not where they lie
        otherwise, as drawn; and both sides' inputs are to be touched alike."""
        with self._need().spoiled(spots):
            if self.ended is Ended:
                yield
        if self.ended is not Ended:
            yield

    def intact(self, spots: list[Spot], tensors: list[torch.Tensor]) -> bool:
        """Whether the inputs there are, bit for bit, what was put there."""
        views = self._views(spots)
        return all(same_bits(a, b) for a, b in zip(views, tensors, strict=True))

    def _views(self, spots: list[Spot]) -> list[torch.Tensor]:
        """Of our own arena. Kept: thousands are looked at in the time of one verdict."""
        for spot in spots:
            if spot not in self._seen:
                self._seen[spot] = self._need().view(spot)
        return [self._seen[spot] for spot in spots]

    def _need(self) -> Arena:
        assert self._arena is not None
        return self._arena

    def _synchronize(self) -> None:
        self._backend.synchronize()
