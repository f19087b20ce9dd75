"""Timed calls in a worker: the same code for the baseline's and the candidate's.

On the CPU, one call with a monotonic clock around it, whose output stays where the call left it. On
CUDA, several, each with its own inputs and its own place for outputs, on a cold cache, with a pair
of events around each and one wait at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch

from gpu_sandbox.ipc.cpu_call_messages import NOTHING_PLAIN, SEED_BYTES
from gpu_sandbox.ipc.framing import Channel, PeerGone
from gpu_sandbox.ipc.worker_messages import Loop, Ran, Request, StandBy, Time, Timed
from gpu_sandbox.runtime.module_loader import seed_torch
from gpu_sandbox.tensors.pytree import plain_digest, plain_digests
from gpu_sandbox.tensors.shared_arena import Arena
from gpu_sandbox.worker.backends.backend import EventPair
from gpu_sandbox.worker.called_model import KEPT_BYTES
from gpu_sandbox.worker.gated_calls import GatedCalls, blank
from gpu_sandbox.worker.outputs import (
    Slot,
    deliver,
    describe_outputs,
    locate_outputs,
    pack_outputs,
)

_now = time.perf_counter_ns


class TimedModel(GatedCalls):
    def __init__(
        self, model: Callable[..., Any], device: torch.device, owned: Sequence[bool] = ()
    ) -> None:
        super().__init__(model, device, owned)
        self._answered: Slot | None = None
        self._ready: Slot | None = None
        self._launch_ns = self._handled_ns = self._copied_ns = 0

    # --- CPU: one call

    def stand_by(self, asked: StandBy) -> None:
        """Do everything for a call on the CPU that does not need its inputs.

        The output before the last is given up, also that of a rehearsal: giving back much memory
        takes long. Rehearsals repeat the last call, on both sides: otherwise a model that repeated
        it by itself would find its data in caches that the other side has lost."""
        with torch.no_grad():
            self._give_up_before()
            self._ready, before = self.slots[asked.slot], self._answered
            if before is None or before not in self.slots.values():  # it has no inputs any more
                return
            began = _now()
            for _ in range(asked.rehearsals):
                self._time_cpu(0, before)
                self._give_up_before()
                if _now() - began > asked.within_s * 1e9:
                    break

    def answer(self, channel: Channel[Request]) -> None:
        """One call, by bare bytes: its seed comes, its time and the places of its outputs go back.
        Raises what the model raises.

        Everything here besides the call is overhead that a worker could skip: so it is little, of
        few functions, since none of their code is in the caches."""
        assert self._ready is not None
        self._answered = slot = self._ready
        receive, send = channel.signals()
        try:
            with torch.no_grad():
                if not (seed := receive(SEED_BYTES)):
                    raise PeerGone
                elapsed_ns = self._time_cpu(int.from_bytes(seed, "little", signed=True), slot)
                began = _now()
                owed = self._owed
                tensors, plain = [owed], NOTHING_PLAIN
                if type(owed) is not torch.Tensor:
                    tree, tensors = pack_outputs(owed)
                    plain = plain_digest(tree)
                found, self._located, self._copied_ns = locate_outputs(tensors, slot)
                encoded = slot.answer.encode(elapsed_ns, found, plain)
                self._handled_ns = _now() - began
                send(encoded)
        except PeerGone:
            raise
        except (Exception, SystemExit):
            send(slot.answer.failed)
            raise

    def describe(self) -> Ran:
        """Describe the output of the call that was timed."""
        self._give_up_before()
        self._located.clear()
        assert self._ready is not None
        found = pack_outputs(self._owed)
        ran = msgspec.structs.replace(
            describe_outputs(found, self._ready),
            handled_ns=self._handled_ns,
            copied_ns=self._copied_ns,
        )
        strided = [t for t in found.tensors if t.layout == torch.strided]
        if sum(t.untyped_storage().nbytes() for t in strided) > KEPT_BYTES:
            self.forget()
        return ran

    # --- CUDA: several calls

    def time(self, asked: Time, host: Arena | None = None) -> Timed:
        """As many forwards as asked, with every output in its place by the end. ``host``: the
        memory of gates."""
        self._trees.clear()
        with torch.no_grad():
            if asked.gate == "none":
                return self._time_cuda(asked)
            assert host is not None
            return Timed(elapsed_ns=[], last=self._pass_gates(asked, host))

    def _time_cuda(self, asked: Time) -> Timed:
        events: list[EventPair] = []
        self._launch_ns = 0
        began = _now()
        for number in range(asked.calls):
            slot = self.slots[asked.first + number]
            held = [self._between_events(slot, asked, number, events)]
            found = deliver(held[0], slot)
            if number == asked.calls - 1:
                last = describe_outputs(found, slot)
            self._trees.append(found.tree)
            del found
            self._give_up(held.pop())
            self._cold.move_on()
        loop_ns = _now() - began
        self._backend.synchronize()
        return Timed(
            elapsed_ns=[_nanoseconds(*pair) for pair in events],
            last=last,
            launch_ns=self._launch_ns // asked.calls,
            loop_ns=loop_ns // asked.calls,
            plain=plain_digests(self._trees),
        )

    def _between_events(self, slot: Slot, asked: Time, number: int, events: list[EventPair]) -> Any:
        """Queue one call on a cold cache behind other work; nothing is waited for."""
        seed_torch(asked.seed + number, self._device)
        start, end = self._cold.events(asked.flush_bytes, asked.cover_us, self.kernels)
        began = _now()
        self._cold.mark(start)
        output = self._cold.touch() if asked.empty else self._model(*slot.arguments)
        self._cold.mark(end)
        self._launch_ns += _now() - began
        events.append((start, end))
        return output

    def loop(self, asked: Loop) -> Timed:
        """Call as a model in eager mode is called. Outputs are delivered behind the wait: what that
        takes is known from an empty loop."""
        self._trees.clear()
        slots = [self.slots[asked.first + number] for number in range(asked.calls)]
        with torch.no_grad():
            outputs = self._looped(asked, slots)
            self._backend.synchronize()
            outputs.reverse()
            for slot in slots:
                held = [outputs.pop()]
                found = deliver(held[0], slot)
                self._trees.append(found.tree)
                if slot is slots[-1]:
                    last = describe_outputs(found, slot)
                del found
                self._give_up(held.pop())
            self._backend.synchronize()
        return Timed(elapsed_ns=[], last=last, plain=plain_digests(self._trees))

    def _looped(self, asked: Loop, slots: Sequence[Slot]) -> list[Any]:
        model, device = self._model, self._device
        if asked.empty:
            nothing = [blank(place) for place in slots[0].outputs]

            def model(*_: Any) -> Any:
                return nothing

        outputs: list[Any] = []
        for seed, slot in enumerate(slots, asked.seed):
            seed_torch(seed, device)
            outputs.append(model(*slot.arguments))
        return outputs


def _nanoseconds(start: Any, end: Any) -> int:
    return int(start.elapsed_time(end) * 1e6)
