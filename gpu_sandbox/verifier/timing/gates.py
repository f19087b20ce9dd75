"""Batches behind a gate: the worker queues its calls on the device, then the keys come.

Inputs are there before, sealed, and what a call has put out is committed to by a digest
(``cuda/gate_kernels.py``). Nothing but unsealing, the calls, the sealing of their outputs and their
digest lies between the key and the end: no flush, no cover, no launch, no message, that a worker
could leave out to hide its calls in, and no other process's turn on the device. So the
difference between two workers' walls is that of their calls.
CUDA only. A forward that waits for the device itself can't be queued ahead; then its
launches are part of what it takes.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Sequence

import torch

from gpu_sandbox.ipc.verifier_messages import Differs, Forged, WorkerSilent
from gpu_sandbox.ipc.worker_messages import Gate, Ran, Time, Timed
from gpu_sandbox.tensors.gate_channel import GateChannel
from gpu_sandbox.tensors.gate_layout import (
    DIGEST_BYTES,
    KEY_BYTES,
    CallBuffers,
    digest_bytes,
    rounds,
)
from gpu_sandbox.tensors.memory_layout import reported_stride
from gpu_sandbox.tensors.shared_arena import place
from gpu_sandbox.verifier.backends.lookup import backend_of, events_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.batches import Batches, Settings, TimedBatch
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.digests import recall_trees

__all__ = ["GateBuffers", "GatedBatches"]

_QUEUE_S = (1.0, 0.25, 0.0)
"""How long calls may take to be queued, after so many releases in a row that were not."""
_MOST_OF_FREE = 0.2


class Sealed:
    """Which cases lie enciphered in a room's rows, and by which keys."""

    cases: list[Case] | None = None
    keys: Sequence[bytes] = ()


class GateBuffers:
    """The verifier's own memory for the inputs and outputs of so many calls like that one, and for
    what these leave of their inputs if ``left``. Raises ``torch.OutOfMemoryError`` also where it
    would leave a candidate too little."""

    def __init__(
        self, first: Case, device: torch.device, calls: int, *, left: bool = False
    ) -> None:
        self.device, self.calls = device, calls
        outputs = [e.native for e in first.expected]
        each = place(first.tensors, 0)[1]
        wanted = calls * (each * (2 if left else 1) + place(outputs, 0)[1])
        free = backend_of(device).free_bytes()
        if free is not None and wanted > _MOST_OF_FREE * free:
            raise torch.OutOfMemoryError(f"{wanted} bytes are too much of what is free")
        self.inputs = CallBuffers(first.tensors, calls, device)
        self.outputs = CallBuffers(outputs, calls, device)
        self.left = CallBuffers(first.tensors if left else [], calls, device)
        self.sealed = Sealed()

    def for_calls(self, calls: int) -> GateBuffers:
        """For fewer, in the same memory: what is sealed there is for all of these."""
        fewer = copy.copy(self)
        fewer.calls, fewer.inputs = calls, self.inputs.first(calls)
        fewer.outputs, fewer.left = self.outputs.first(calls), self.left.first(calls)
        return fewer


class GatedBatches(Batches):
    """``gate``: "once", one key lets in all calls; "each", each call has a key of its own, that is
    given when the call before is done: so they can't be worked on together. A worker that says too
    early that a call is done commits to outputs that it can't know.
    """

    def __init__(self, task: Task, first: Case, room: GateBuffers, gate: Gate) -> None:
        super().__init__(task, first, room.device, room.calls)
        self.gate = gate
        self._rounds = rounds(gate, room.calls)
        self._events = events_of(room.device)
        self._image = self._events.compiled_kernels()
        self._inputs, self._outputs = room.inputs, room.outputs
        self._sealed, self._left = room.sealed, room.left
        self._digest_bytes, self._left_bytes = (
            digest_bytes(rows.regions.size * len(self._rounds[0]))
            for rows in (room.outputs, room.left)
        )

    def let_go(self) -> None:
        self._sealed.cases = None
        super().let_go()

    def release(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> TimedBatch:
        return self.passed(peer, seed, chosen)

    def passed(
        self, peer: Peer, seed: int, chosen: Sequence[int] = (), *, empty: bool = False
    ) -> TimedBatch:
        """Without claims. ``empty``: all but the model, by a worker that is trusted: that of
        the reference, or one that has no candidate yet."""
        peer.give_kernels(self._image)
        turn = peer.lay(self.layout, self.cases)
        size = GateChannel.size(len(self._rounds), self.calls)
        turns = GateChannel(peer.share_host(size), self.calls)
        turns.reset()
        keys = self._put(peer)
        request = Time(
            calls=self.calls,
            first=turn.first,
            seed=seed,
            flush_bytes=0,
            cover_us=0,
            gate=self.gate,
            empty=empty,
            left=self._task.mutates,
        )
        peer.send(request, "bench")
        with turns.opened_on_error():
            self._let_queue(peer, turns)
            began = time.perf_counter_ns()
            committed, plain = self._let_in(peer, turns, keys)
            wall_ns = time.perf_counter_ns() - began
        timed = peer.take(Timed, "bench")
        if committed != self._digests(peer):
            raise peer.ended(Differs(reason="an output changed after its call was done"))
        if chosen:
            self._open_outputs(keys)
        outputs = self._opened(chosen, timed.last)
        left = [view.clone() for view in self._left.views[chosen[0]]] if chosen else []
        trees = recall_trees(peer, timed.last, plain, self.calls, chosen)
        return TimedBatch(0, wall_ns, 0, outputs, timed.last, left=left, trees=trees)

    def beside_ns(self, nothing_ns: float) -> float:
        """What a call's unsealing takes, and its outputs' sealing and digest, and that of what is
        left of its inputs, all of which it need not leave to be done. ``nothing_ns``: what events
        read of nothing."""
        inputs, outputs = self._inputs.regions, self._outputs.regions
        kernels, stream = self._events.kernels(), self._events.stream()
        made = [e.native for e in self._first.expected]
        self._sealed.cases = None  # this works where they lie
        room = torch.zeros(KEY_BYTES + DIGEST_BYTES, dtype=torch.uint8, device=self.device)
        digest_at = room.data_ptr() + KEY_BYTES

        def beside() -> None:
            kernels.crypt_inputs(stream, inputs, range(1), room.data_ptr())
            for tensor, to in zip(made, self._outputs.views[0], strict=True):
                kernels.store_encrypted(stream, tensor, to, 0, room.data_ptr())
            kernels.digest(stream, outputs, range(1), digest_at)
            kernels.digest(stream, self._left.regions, range(1), digest_at)

        return max(self._events.read_ns(beside) - nothing_ns, 0.0)

    # --- a release, step by step

    def _put(self, peer: Peer) -> Sequence[bytes]:
        """The inputs, sealed, where the worker may see them, and the keys. Both workers get the
        same, once each: neither sees what the other has."""
        if self._sealed.cases is not self.cases:
            self._seal()
        peer.bytes_of(peer.turn.inputs).copy_(self._inputs.bytes)
        self._backend.synchronize()
        return self._sealed.keys

    def _seal(self) -> None:
        """Encipher what was drawn, in our own memory, by keys that are new each time. Between the
        inputs is nothing: what lay there would be opened with them."""
        self._sealed.cases = None
        self._inputs.bytes.zero_()
        for case, views in zip(self.cases, self._inputs.views, strict=True):
            for tensor, view in zip(case.tensors, views, strict=True):
                view.copy_(tensor.detach())
        keys = [os.urandom(KEY_BYTES) for _ in self._rounds]
        there = self._there(keys)
        stream, calls, count = self._events.stream(), self._rounds[0], len(self._rounds)
        self._events.kernels().crypt_inputs(
            stream, self._inputs.regions, calls, there.data_ptr(), count
        )
        self._sealed.keys, self._sealed.cases = keys, self.cases

    def _opened(self, chosen: Sequence[int], ran: Ran) -> list[list[torch.Tensor]]:
        """The outputs of these calls, in memory of their own."""
        views = self._outputs.views[0]
        if len(ran.leaves) == len(views):
            strides = [reported_stride(*each) for each in zip(views, ran.leaves, strict=True)]
        else:  # which ends it, later
            strides = [view.stride() for view in views]
        return self._outputs.copies(chosen, strides)

    def _open_outputs(self, keys: Sequence[bytes]) -> None:
        there, kernels = self._there(keys), self._events.kernels()
        stream, calls, count = self._events.stream(), self._rounds[0], len(self._rounds)
        outputs = self._outputs.regions
        kernels.decrypt_outputs(stream, outputs, calls, there.data_ptr(), count)

    def _there(self, keys: Sequence[bytes]) -> torch.Tensor:
        """On the device."""
        return torch.frombuffer(bytearray(b"".join(keys)), dtype=torch.uint8).to(self.device)

    def _let_queue(self, peer: Peer, turns: GateChannel) -> None:
        """Not for long: a forward that waits for the device waits for us."""
        deadline = time.monotonic() + _QUEUE_S[min(peer.unqueued, len(_QUEUE_S) - 1)]

        def go_on() -> bool:
            return not peer.said_something() and time.monotonic() < deadline

        all_are = turns.wait(turns.queued, self.calls + 1, go_on)
        peer.queued, peer.unqueued = turns.queued.value, 0 if all_are else peer.unqueued + 1
        if peer.said_something():
            peer.take(Timed, "bench")
            raise peer.ended(Forged(reason="the worker answered before its turn"))

    def _let_in(
        self, peer: Peer, turns: GateChannel, keys: Sequence[bytes]
    ) -> tuple[list[bytes], list[bytes]]:
        """Give the keys, and take the digests: of memory, one a round, and of plain values, one a
        call."""
        taken: list[bytes] = []
        plain: list[bytes] = []
        for number, (key, calls) in enumerate(zip(keys, self._rounds, strict=True)):
            turns.give(number, key)
            self._await_turn(peer, turns, number + 1)
            taken.append(turns.digest(self._digest_bytes, self._left_bytes))
            plain += turns.plain(calls)
        return taken, plain

    def _await_turn(self, peer: Peer, turns: GateChannel, number: int) -> None:
        deadline = time.monotonic() + peer.call_s

        def go_on() -> bool:
            if peer.said_something():  # an error, or its end: the answer comes after the last
                return False
            if time.monotonic() > deadline:
                raise peer.ended(WorkerSilent(stage="bench", limit_s=peer.call_s))
            return True

        if not turns.wait(turns.done, number, go_on) and turns.done.value < number:
            peer.take(Timed, "bench")
            raise peer.ended(Forged(reason="the worker answered before its turn"))

    def _digests(self, peer: Peer) -> list[bytes]:
        """Of what the places of outputs, and of inputs that calls change, hold now, as it is
        copied: what is compared later is what was committed to."""
        self._outputs.bytes.copy_(peer.bytes_of(peer.turn.outputs))
        made = self._digested(self._outputs, self._digest_bytes)
        if not self._left_bytes:
            return made
        self._left.bytes.copy_(peer.bytes_of(peer.turn.inputs))
        left = self._digested(self._left, self._left_bytes)
        return [one + other for one, other in zip(made, left, strict=True)]

    def _digested(self, rows: CallBuffers, size: int) -> list[bytes]:
        """So many bytes for each round."""
        stream, count = self._events.stream(), len(self._rounds)
        room = torch.zeros(count, size, dtype=torch.uint8, device=self.device)
        kernels = self._events.kernels()
        kernels.digest(stream, rows.regions, self._rounds[0], room.data_ptr(), count)
        return [row.tobytes() for row in room.cpu().numpy()]
