"""Gated batches: the worker queues its calls on the device, then their keys come. GPU only.

Inputs lie there before, encrypted, and each output is committed to by a digest
(``tensors/gate_layout.py``). Only decryption, the calls, encryption of their outputs and digests
lie between key and end: no flush, cover, launch or message that a worker could skip to hide its
calls in, and no other process's turn on the device. A forward that waits for the device can't be
queued ahead; its launches count.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Sequence
from typing import NoReturn

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

_QUEUE_S = (1.0, 0.25, 0.0)
"""How long calls may take to be queued, after so many batches in a row that were not."""
_MAX_FREE_SHARE = 0.2


class EncryptedCases:
    """The cases that lie encrypted in a buffer's rows, and their keys."""

    cases: list[Case] | None = None
    keys: Sequence[bytes] = ()


class GateBuffers:
    """The verifier's memory for inputs and outputs of ``calls`` calls like ``first``, and for
    mutated inputs if ``left``. Raises ``torch.OutOfMemoryError`` also where it would leave a
    candidate too little."""

    def __init__(
        self, first: Case, device: torch.device, calls: int, *, left: bool = False
    ) -> None:
        self.device, self.calls = device, calls
        outputs = [e.native for e in first.expected]
        each = place(first.tensors, 0)[1]
        wanted = calls * (each * (2 if left else 1) + place(outputs, 0)[1])
        free = backend_of(device).free_bytes()
        if free is not None and wanted > _MAX_FREE_SHARE * free:
            raise torch.OutOfMemoryError(f"{wanted} bytes are too much of what is free")
        self.inputs = CallBuffers(first.tensors, calls, device)
        self.outputs = CallBuffers(outputs, calls, device)
        self.left = CallBuffers(first.tensors if left else [], calls, device)
        self.encrypted = EncryptedCases()

    def for_calls(self, calls: int) -> GateBuffers:
        """For fewer calls, in the same memory: what is encrypted there is for all of these."""
        fewer = copy.copy(self)
        fewer.calls, fewer.inputs = calls, self.inputs.first(calls)
        fewer.outputs, fewer.left = self.outputs.first(calls), self.left.first(calls)
        return fewer


class GatedBatches(Batches):
    """``gate``: "once", one key releases all calls; "each", every call has a key of its own, given
    when the call before is done, so that they can't be worked on together. A worker that reports a
    call as done too early commits to outputs that it can't know.
    """

    def __init__(self, task: Task, first: Case, room: GateBuffers, gate: Gate) -> None:
        super().__init__(task, first, room.device, room.calls)
        self.gate = gate
        self._rounds = rounds(gate, room.calls)
        self._events = events_of(room.device)
        self._image = self._events.compiled_kernels()
        self._inputs, self._outputs = room.inputs, room.outputs
        self._encrypted, self._left = room.encrypted, room.left
        self._digest_bytes, self._left_bytes = (
            digest_bytes(rows.regions.size * len(self._rounds[0]))
            for rows in (room.outputs, room.left)
        )

    def let_go(self) -> None:
        self._encrypted.cases = None
        super().let_go()

    def run(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> TimedBatch:
        return self.passed(peer, seed, chosen)

    def passed(
        self, peer: Peer, seed: int, chosen: Sequence[int] = (), *, empty: bool = False
    ) -> TimedBatch:
        """A batch without a reported time. ``empty``: all but the model, by a trusted worker: the
        reference's, or one that has no candidate yet."""
        peer.give_kernels(self._image)
        turn = peer.lay(self.layout, self.cases)
        size = GateChannel.size(len(self._rounds), self.calls)
        channel = GateChannel(peer.share_host(size), self.calls)
        channel.reset()
        keys = self._give_inputs(peer)
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
        with channel.opened_on_error():
            self._await_queue(peer, channel)
            began = time.perf_counter_ns()
            committed, plain = self._give_keys(peer, channel, keys)
            wall_ns = time.perf_counter_ns() - began
        timed = peer.take(Timed, "bench")
        if committed != self._digests(peer):
            raise peer.ended(Differs(reason="an output changed after its call was done"))
        outputs = self._decrypted(chosen, keys, timed.last)
        mutated = [view.clone() for view in self._left.views[chosen[0]]] if chosen else []
        trees = recall_trees(peer, timed.last, plain, self.calls, chosen)
        return TimedBatch(0, wall_ns, 0, outputs, timed.last, mutated_inputs=mutated, trees=trees)

    def crypt_ns(self, nothing_ns: float) -> float:
        """Device time of a call's decryption, encryption and digests, which the call itself need
        not wait for. ``nothing_ns``: what events read of nothing."""
        inputs, outputs = self._inputs.regions, self._outputs.regions
        kernels, stream = self._events.kernels(), self._events.stream()
        made = [e.native for e in self._first.expected]
        self._encrypted.cases = None  # this overwrites them
        room = torch.zeros(KEY_BYTES + DIGEST_BYTES, dtype=torch.uint8, device=self.device)
        digest_at = room.data_ptr() + KEY_BYTES

        def work() -> None:
            kernels.crypt_inputs(stream, inputs, range(1), room.data_ptr())
            for tensor, to in zip(made, self._outputs.views[0], strict=True):
                kernels.store_encrypted(stream, tensor, to, 0, room.data_ptr())
            kernels.digest(stream, outputs, range(1), digest_at)
            kernels.digest(stream, self._left.regions, range(1), digest_at)

        return max(self._events.read_ns(work) - nothing_ns, 0.0)

    # --- a batch, step by step

    def _give_inputs(self, peer: Peer) -> Sequence[bytes]:
        """Copy the encrypted inputs to the worker's memory; returns their keys. Both workers get
        the same, once each: neither sees what the other has."""
        if self._encrypted.cases is not self.cases:
            self._encrypt()
        peer.bytes_of(peer.turn.inputs).copy_(self._inputs.bytes)
        self._backend.synchronize()
        return self._encrypted.keys

    def _encrypt(self) -> None:
        """Encrypt what was drawn, in private memory, by new keys. The bytes between inputs are
        zeroed: former content would be decrypted with them."""
        self._encrypted.cases = None
        self._inputs.bytes.zero_()
        for case, views in zip(self.cases, self._inputs.views, strict=True):
            for tensor, view in zip(case.tensors, views, strict=True):
                view.copy_(tensor.detach())
        keys = [os.urandom(KEY_BYTES) for _ in self._rounds]
        there, kernels = self._on_device(keys), self._events.kernels()
        stream, calls, count = self._events.stream(), self._rounds[0], len(self._rounds)
        kernels.crypt_inputs(stream, self._inputs.regions, calls, there.data_ptr(), count)
        self._encrypted.keys, self._encrypted.cases = keys, self.cases

    def _decrypted(
        self, chosen: Sequence[int], keys: Sequence[bytes], ran: Ran
    ) -> list[list[torch.Tensor]]:
        """Private copies of the outputs of these calls."""
        if chosen:
            there, kernels = self._on_device(keys), self._events.kernels()
            stream, calls, count = self._events.stream(), self._rounds[0], len(self._rounds)
            kernels.decrypt_outputs(stream, self._outputs.regions, calls, there.data_ptr(), count)
        views = self._outputs.views[0]
        if len(ran.leaves) == len(views):
            strides = [reported_stride(*each) for each in zip(views, ran.leaves, strict=True)]
        else:  # which ends it, later
            strides = [view.stride() for view in views]
        return self._outputs.copies(chosen, strides)

    def _on_device(self, keys: Sequence[bytes]) -> torch.Tensor:
        return torch.frombuffer(bytearray(b"".join(keys)), dtype=torch.uint8).to(self.device)

    def _await_queue(self, peer: Peer, channel: GateChannel) -> None:
        """Not for long: a forward that waits for the device waits for the verifier."""
        deadline = time.monotonic() + _QUEUE_S[min(peer.unqueued, len(_QUEUE_S) - 1)]

        def go_on() -> bool:
            return not peer.said_something() and time.monotonic() < deadline

        all_are = channel.wait(channel.queued, self.calls + 1, go_on)
        peer.queued, peer.unqueued = channel.queued.value, 0 if all_are else peer.unqueued + 1
        if peer.said_something():
            self._end_early(peer)

    def _give_keys(
        self, peer: Peer, channel: GateChannel, keys: Sequence[bytes]
    ) -> tuple[list[bytes], list[bytes]]:
        """Give the keys and take the digests: of memory, one a round, and of plain values, one a
        call."""
        taken: list[bytes] = []
        plain: list[bytes] = []
        for number, (key, calls) in enumerate(zip(keys, self._rounds, strict=True)):
            channel.give(number, key)
            self._await_round(peer, channel, number + 1)
            taken.append(channel.digest(self._digest_bytes, self._left_bytes))
            plain += channel.plain(calls)
        return taken, plain

    def _await_round(self, peer: Peer, channel: GateChannel, number: int) -> None:
        deadline = time.monotonic() + peer.call_s

        def go_on() -> bool:
            if peer.said_something():  # an error, or its end: the answer comes after the last
                return False
            if time.monotonic() > deadline:
                raise peer.ended(WorkerSilent(stage="bench", limit_s=peer.call_s))
            return True

        if not channel.wait(channel.done, number, go_on) and channel.done.value < number:
            self._end_early(peer)

    def _end_early(self, peer: Peer) -> NoReturn:
        """An error that the worker reports, or a reply before its time."""
        peer.take(Timed, "bench")
        raise peer.ended(Forged(reason="the worker answered before its turn"))

    def _digests(self, peer: Peer) -> list[bytes]:
        """Of the worker's outputs and mutated inputs as they are copied now: what is compared later
        is what was committed to."""
        self._outputs.bytes.copy_(peer.bytes_of(peer.turn.outputs))
        made = self._digested(self._outputs, self._digest_bytes)
        if not self._left_bytes:
            return made
        self._left.bytes.copy_(peer.bytes_of(peer.turn.inputs))
        left = self._digested(self._left, self._left_bytes)
        return [one + other for one, other in zip(made, left, strict=True)]

    def _digested(self, rows: CallBuffers, size: int) -> list[bytes]:
        """``size`` bytes for each round."""
        stream, count = self._events.stream(), len(self._rounds)
        room = torch.zeros(count, size, dtype=torch.uint8, device=self.device)
        kernels = self._events.kernels()
        kernels.digest(stream, rows.regions, self._rounds[0], room.data_ptr(), count)
        return [row.tobytes() for row in room.cpu().numpy()]
