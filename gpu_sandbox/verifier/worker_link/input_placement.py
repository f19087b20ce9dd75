"""Placement of calls in memory that verifier and worker share: the arena and its slots.

A call's inputs lie elsewhere than those of the call before. Memory that held an earlier call's
inputs holds other ones of the task by then: a module that kept a tensor, a pointer or a graph of
its first call computes with these.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
import torch

from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.ipc.worker_messages import ArenaShared, Done, Lay, Place, ReleaseMemory
from gpu_sandbox.tensors.bitwise import same_bits
from gpu_sandbox.tensors.gate_layout import bytes_of_calls
from gpu_sandbox.tensors.shared_arena import Arena, Layout, place
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.worker_link.requests import Ended, WorkerRequests

_SLOT_BYTES = 1 << 20
"""Of slots, in one message: one by one they take a GPU's worker longer than a batch."""


class Turn(NamedTuple):
    """Slots of the next calls, from ``first`` on, and the places in them."""

    first: int
    inputs: list[list[Spot]]
    outputs: list[list[Spot]]


def next_slot(last: int | None, slots: int) -> int:
    """A slot that is not the ``last`` one, if there are two or more."""
    return 0 if last is None else (last + 1) % slots


def has_room_for_two(case: Case, peak_bytes: int, device: torch.device) -> bool:
    """Whether a worker's memory has room for two sets of inputs beside its outputs.

    ``peak_bytes``: device memory that the reference's forward needs besides. The host's memory is
    not checked, and the answer is yes."""
    free = backend_of(device).free_bytes()
    if free is None:
        return True
    inputs = sum(tensor.nbytes for tensor in case.tensors)
    outputs = sum(expected.native.nbytes for expected in case.expected)
    return 2 * inputs + outputs + peak_bytes <= free


class SharedSlots(WorkerRequests):
    """A worker with an arena that it shares with the verifier, and slots in it. ``shared_bytes``:
    of the arena that the worker has mapped; ``called``: the slot of its last call."""

    def __init__(
        self, sock: socket.socket, device: torch.device, call_s: float, *, reference: bool
    ) -> None:
        super().__init__(sock, call_s, reference=reference)
        self._device = device
        self._backend = backend_of(device)
        self._arena: Arena | None = None
        self._host: Arena | None = None
        self.shared_bytes = 0
        self.turn = Turn(0, [], [])
        self.called: int | None = None
        self._layout: tuple[list[list[Spot]], list[list[Spot]]] | None = None
        self._placed: dict[int, Place] = {}
        self._viewed: dict[Spot, torch.Tensor] = {}

    def close(self) -> None:
        self._viewed.clear()
        for arena in (self._arena, self._host):
            if arena is not None:
                arena.close()

    # --- the arena

    def reserve(self, total_bytes: int) -> Arena:
        """An arena of at least that size. A new one makes all former places invalid."""
        if self._arena is None or total_bytes > self._arena.size:
            self._viewed.clear()
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
        """Close it: the next one is made anew, however small."""
        if self._arena is not None:
            self._viewed.clear()
            self._arena.close()
            self._arena = self._layout = None

    def keep_little(self) -> None:
        """Between jobs, have the worker give up much of a GPU's memory: what it maps stays in
        use."""
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
        """Places of copies in the arena, until something else is put there."""
        spots, end = place(tensors, 0)
        arena = self.reserve(end)
        for tensor, view in zip(tensors, arena.views(spots), strict=True):
            view.copy_(tensor)
        self._backend.synchronize()
        return spots

    # --- slots

    def lay(self, layout: Layout, cases: Sequence[Case]) -> Turn:
        """Give these cases slots, and describe to the worker those that it does not know. A single
        case, where there are several slots, does not get that of the last call."""
        self.reserve(layout.total_bytes)
        alone = len(cases) == 1
        first = next_slot(self.called, len(layout.inputs)) if alone else 0
        last = first + len(cases)
        self._describe_slots(layout, dict(enumerate(cases, first)))
        self.turn = Turn(first, layout.inputs[first:last], layout.outputs[first:last])
        self.called = last - 1
        return self.turn

    def lay_beside(self, layout: Layout, others: Sequence[Case]) -> list[int]:
        """Put other cases into the slots behind that of this turn, which are returned."""
        slots = len(layout.inputs)
        behind = [(self.turn.first + number) % slots for number in range(1, slots)]
        beside = dict(zip(behind, others, strict=False))
        self._describe_slots(layout, beside)
        for slot, case in beside.items():
            self._copy(case, layout.inputs[slot])
        self._backend.synchronize()
        return list(beside)

    def _describe_slots(self, layout: Layout, cases: dict[int, Case]) -> None:
        spots = layout.inputs, layout.outputs
        anew = self._layout != spots
        if anew:
            self._placed.clear()
            self._layout = spots
        fresh: list[Place] = []
        for slot, case in cases.items():
            inputs, outputs = layout.inputs[slot], layout.outputs[slot]
            described = Place(slot=slot, args=case.tree, inputs=inputs, outputs=outputs)
            if self._placed.get(slot) != described:
                fresh.append(described)
                self._placed[slot] = described
        together = _SLOT_BYTES // len(msgspec.msgpack.encode(fresh[0])) + 1 if fresh else 1
        for first in range(0, len(fresh), together):
            places = fresh[first : first + together]
            self.ask(Lay(places=places, anew=anew and not first), Done, "share")

    def put(self, cases: Sequence[Case]) -> None:
        """Copy the inputs of each case to its slot of this turn."""
        for spots, case in zip(self.turn.inputs, cases, strict=True):
            self._copy(case, spots)
        self._backend.synchronize()

    def _copy(self, case: Case, spots: list[Spot]) -> None:
        for tensor, view in zip(case.tensors, self._views(spots), strict=True):
            view.copy_(tensor.detach())

    # --- content

    def bytes_of(self, places: Sequence[list[Spot]]) -> torch.Tensor:
        """The bytes of each call: (calls, bytes)."""
        return bytes_of_calls(self._need(), places)

    def scramble(self, spots: list[Spot]) -> None:
        self._need().scramble(spots)
        self._backend.synchronize()

    def taken(self, spots: list[Spot]) -> list[torch.Tensor]:
        """Private copies, which a worker can't change while they are compared."""
        copies = [view.clone() for view in self._views(spots)]
        self._backend.synchronize()
        return copies

    @contextmanager
    def spoiled(self, spots: list[Spot]) -> Iterator[None]:
        """Change inputs in the arena meanwhile, in some places. For the reference they are restored
        before: its output may share memory with them here and not where it lies otherwise; and both
        sides' inputs are touched alike."""
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
        """Views of the arena, kept: a verdict uses thousands."""
        for spot in spots:
            if spot not in self._viewed:
                self._viewed[spot] = self._need().view(spot)
        return [self._viewed[spot] for spot in spots]

    def _need(self) -> Arena:
        assert self._arena is not None
        return self._arena
