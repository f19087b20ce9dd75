"""Timed calls, the same code for the baseline's worker and the candidate's.

CPU: one call, a monotonic clock around it; its output stays where it left it. CUDA: several, each
with its own inputs and its own place for outputs, a pair of events around each, the L2 cache
overwritten before, one synchronize at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import torch

from gpu_sandbox.ipc.cpu_call_messages import NOTHING_PLAIN, SEED_BYTES
from gpu_sandbox.ipc.framing import Channel, PeerGone
from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.ipc.worker_messages import Loop, Ran, Recall, Request, Run, StandBy, Time, Timed
from gpu_sandbox.runtime.module_loader import seed_torch
from gpu_sandbox.tensors.gate_channel import GateChannel
from gpu_sandbox.tensors.gate_layout import GateKernels, StridedRegions, rounds
from gpu_sandbox.tensors.memory_layout import storages
from gpu_sandbox.tensors.overwriting import write_over
from gpu_sandbox.tensors.pytree import plain_digest, plain_digests
from gpu_sandbox.tensors.shared_arena import Arena
from gpu_sandbox.worker.backends.backend import ColdCache, EventPair
from gpu_sandbox.worker.backends.lookup import backend_of
from gpu_sandbox.worker.earlier_outputs import EarlierOutputs
from gpu_sandbox.worker.gated_outputs import GatedOutputs, blank
from gpu_sandbox.worker.outputs import (
    Slot,
    deliver,
    describe_outputs,
    in_index_order,
    locate_outputs,
    pack_outputs,
    reclaimable,
)

_now = time.perf_counter_ns
_KEPT_BYTES = 64 << 20
"""Of an output, and of what it is a view of, until the next one is there: more no cache holds."""
_seed_cpu = torch.default_generator.manual_seed


class TimedModel:
    """A model, and the slots that it is called on. Of what it returns, what is ``owned`` by its
    caller is written over when it is given up, while nothing is timed: or who takes the same memory
    again would write once what is the same in each output."""

    def __init__(
        self, model: Callable[..., Any], device: torch.device, owned: Sequence[bool] = ()
    ) -> None:
        self._model = model
        self._device = device
        self._backend = backend_of(device)
        self._owned = owned
        self._cold = self._new_cold_cache()
        self._blank: list[torch.Tensor] = []
        self._owed: Any = None
        self._before: Any = None
        self._answered: Slot | None = None
        self._ready: Slot | None = None
        self._storages: tuple[int, frozenset[int]] = -1, frozenset()
        self._located: list[torch.Tensor] = []
        self._trees: list[Tree] = []
        self._launch_ns = self._handled_ns = self._copied_ns = 0
        self._earlier = EarlierOutputs()
        self.slots: dict[int, Slot] = {}
        self.placed = 0
        """How often slots have changed."""
        self.kernels: GateKernels | None = None
        """The harness's own; none where they could not be compiled."""

    def put_in_order(self) -> None:
        """What the model returns, from now on and as a part of each call."""
        model = self._model
        self._model = lambda *arguments: in_index_order(model(*arguments))

    def run(self, asked: Run) -> Ran:
        """One forward under its own seed, so that dropout draws the same on both sides."""
        slot = self.slots[asked.slot]
        seed_torch(asked.seed, self._device)
        with torch.no_grad():
            held = [self._model(*slot.arguments)]
            if asked.then:
                self._call_more(asked, held[0])
            found = deliver(held[0], slot)
            ran = self._earlier.marked(describe_outputs(found, slot), found.tensors)
            self._earlier.add(found.tensors)
            del found
            self._give_up(held.pop())  # nobody else has it any more
        self._synchronize()
        return ran

    def _call_more(self, asked: Run, output: Any) -> None:
        """If what they give is one memory with ``output``, that is what to tell."""
        tensors = pack_outputs(output).tensors
        for number in asked.then:
            more = [self._model(*self.slots[number].arguments)]
            self._earlier.add(pack_outputs(more[0]).tensors)
            self._give_up(more.pop(), tensors)

    def warm(self, calls: int, seconds: float) -> None:
        """At least so many calls, and at least so long."""
        began, done = _now(), 0
        with torch.no_grad():
            while done < calls or (_now() - began) < seconds * 1e9:
                self._give_up(self._called(done))
                done += 1

    def repeat(self, calls: int) -> None:
        """And nothing else, for who watches it."""
        with torch.no_grad():
            for number in range(calls):
                self._called(number)

    def repeat_singly(self, calls: int) -> None:
        """One output at a time, on each slot in turn, as memory is measured."""
        slots = list(self.slots.values())
        with torch.no_grad():
            for number in range(calls):
                self._model(*slots[number % len(slots)].arguments)
                self._synchronize()

    def release_memory(self) -> None:
        """Of earlier calls and of the harness: its buffers are made again when they are needed."""
        self.forget()
        self._cold = self._new_cold_cache()
        self._backend.release_freed_memory()

    def _new_cold_cache(self) -> ColdCache:
        """None on the CPU, where nothing asks for it."""
        return cast("ColdCache", self._backend.cold_cache())

    def _called(self, number: int) -> Any:
        """On each slot in turn. On the CPU as what is timed, if its outputs are held, too: else the
        allocator takes memory for more of them then, which is longer than the call. Returns what is
        not needed any more."""
        slot = list(self.slots.values())[number % len(self.slots)]
        if not self._backend.on_host:
            output = self._model(*slot.arguments)
            self._backend.synchronize()
            return output
        if sum(place.nbytes for place in slot.outputs) > _KEPT_BYTES:
            return self._model(*slot.arguments)
        self._time_cpu(0, slot)
        before, self._before = self._before, None
        return before

    def _give_up(self, output: Any, held: Sequence[torch.Tensor] = ()) -> None:
        """If nobody else has it, it ends before: what its end does to its memory is undone."""
        memory = reclaimable(output, self._owned, held, self._input_storages())
        del output
        write_over(memory)

    def _input_storages(self) -> frozenset[int]:
        """Addresses of the memory of all slots' inputs."""
        if self._storages[0] != self.placed:
            inputs = [tensor for slot in self.slots.values() for tensor in slot.inputs]
            self._storages = self.placed, frozenset(storages(inputs))
        return self._storages[1]

    def place(self, number: int, slot: Slot) -> None:
        self.slots[number] = slot
        self.placed += 1

    def take_places(self, other: TimedModel) -> None:
        """Have the same slots as the other one, from now on."""
        self.slots = other.slots
        self.placed += 1

    def forget_places(self) -> None:
        self.slots.clear()
        self.placed += 1

    def time(self, asked: Time, host: Arena | None = None) -> Timed:
        """As many forwards as asked, with every output in its place by the end. ``host``: where
        gates are."""
        self._trees.clear()
        with torch.no_grad():
            if asked.gate == "none":
                return self._time_cuda(asked)
            assert host is not None
            return Timed(elapsed_ns=[], last=self._pass_gates(asked, host))

    def stand_by(self, asked: StandBy) -> None:
        """For a call on the CPU: all that does not need its inputs. The output before the last is
        given up, as after each call, also that of a rehearsal: to give back much memory takes long
        (2.6 ms of a call of 15 that makes 48 MB).

        Who called its model now, on what is there, would find in the caches what the other side has
        lost from them: so both do.
        """
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
        """One call, by signals alone: the seed comes, and what it took is told, and where its
        outputs are. Raises what the model raises.

        What is done here besides the call is credited to whoever leaves it out: so there is as
        little as can be, of few functions, since none of their code is in the caches.
        """
        assert self._ready is not None
        self._answered = slot = self._ready
        told, tell = channel.signals()
        try:
            with torch.no_grad():
                if not (seed := told(SEED_BYTES)):
                    raise PeerGone
                elapsed_ns = self._time_cpu(int.from_bytes(seed, "little", signed=True), slot)
                began = _now()
                owed = self._owed
                tensors, plain = [owed], NOTHING_PLAIN
                if type(owed) is not torch.Tensor:
                    tree, tensors = pack_outputs(owed)
                    plain = plain_digest(tree)
                found, self._located, self._copied_ns = locate_outputs(tensors, slot)
                told_now = slot.answer.encode(elapsed_ns, found, plain)
                self._handled_ns = _now() - began
                tell(told_now)
        except PeerGone:
            raise
        except (Exception, SystemExit):
            tell(slot.answer.failed)
            raise

    def _time_cpu(self, seed: int, slot: Slot) -> int:
        """Nanoseconds of a call, while the output before lives, as it does in ``y = model(x)``.

        Without that an allocator that has one place for it gives the same one each time, which is
        in the cache still, and one that has two alternates: of two processes with the same code,
        one did this and one that for as long as they lived, and 256 KB were 2.5 % slower there.
        """
        model, arguments = self._model, slot.arguments
        self._before, self._owed = self._owed, None
        _seed_cpu(seed)
        began = _now()
        self._owed = model(*arguments)
        return _now() - began

    def describe(self) -> Ran:
        """The output of the call that was timed."""
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
        if sum(t.untyped_storage().nbytes() for t in strided) > _KEPT_BYTES:
            self.forget()
        return ran

    def forget(self) -> None:
        """The output of the last call."""
        self._give_up_before()
        self._located.clear()
        self._before, self._owed = self._owed, None
        self._give_up_before()

    def _give_up_before(self) -> None:
        held, self._before = [self._before], None
        if held[0] is not None:
            self._give_up(held.pop())

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
            elapsed_ns=[_nanoseconds(*marks) for marks in events],
            last=last,
            launch_ns=self._launch_ns // asked.calls,
            loop_ns=loop_ns // asked.calls,
            plain=plain_digests(self._trees),
        )

    def loop(self, asked: Loop) -> Timed:
        """Calls as a model in eager mode makes them. Outputs are delivered behind the wait: what
        that takes is known from an empty loop, and no call's."""
        self._trees.clear()
        slots = [self.slots[asked.first + number] for number in range(asked.calls)]
        with torch.no_grad():
            outputs = self._looped(asked, slots)
            self._synchronize()
            outputs.reverse()
            for slot in slots:
                held = [outputs.pop()]
                found = deliver(held[0], slot)
                self._trees.append(found.tree)
                if slot is slots[-1]:
                    last = describe_outputs(found, slot)
                del found
                self._give_up(held.pop())
            self._synchronize()
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

    def recall(self, asked: Recall) -> Ran:
        return Ran(tree=self._trees[asked.call], leaves=[])

    def _pass_gates(self, asked: Time, host: Arena) -> Ran:
        """Queue it all; each round begins when the key to its inputs is there."""
        stream = self._backend.current_stream().cuda_stream
        turns, kernels = GateChannel(host, asked.calls), self.kernels
        assert kernels is not None
        slots = [self.slots[asked.first + number] for number in range(asked.calls)]
        if asked.empty:
            self._blank = [blank(place) for place in slots[0].outputs]
        places, address = [slot.place for slot in slots], slots[0].address
        inputs = StridedRegions.of([place.inputs for place in places], address)
        outputs = StridedRegions.of([place.outputs for place in places], address)
        putting = GatedOutputs(kernels, stream, outputs)
        for number, calls in enumerate(rounds(asked.gate, asked.calls)):
            kernels.wait_for_key(stream, turns.given_at, number + 1, turns.key_at(number))
            kernels.crypt_inputs(stream, inputs, calls, kernels.taken_at)
            for k in calls:
                slot = slots[k]
                found = pack_outputs(self._queued(slot, asked, k))
                putting.put(found, slot, k, calls)
                turns.commit(k, plain_digest(found.tree))
                self._trees.append(found.tree)
                turns.queued.value = k + 1
            kernels.digest(stream, outputs, calls, turns.digest_at)
            if asked.left:
                kernels.digest(stream, inputs, calls, turns.left_at)
            self._backend.write_behind(stream, turns.done_at, number + 1)
        turns.queued.value = asked.calls + 1
        self._backend.synchronize()
        self._blank.clear()
        return putting.describe(found, slot)

    def _queued(self, slot: Slot, asked: Time, number: int) -> Any:
        """The output of a call that has been queued on this stream."""
        if asked.empty:
            return self._blank
        seed_torch(asked.seed + number, self._device)
        ours = self._backend.current_stream()
        output = self._model(*slot.arguments)
        self._backend.return_to(ours)
        return output

    def _between_events(self, slot: Slot, asked: Time, number: int, events: list[EventPair]) -> Any:
        """One call on a cold cache, queued behind other work; nothing is waited for."""
        seed_torch(asked.seed + number, self._device)
        start, end = self._cold.events(asked.flush_bytes, asked.cover_us, self.kernels)
        began = _now()
        self._cold.mark(start)
        output = self._cold.touch() if asked.empty else self._model(*slot.arguments)
        self._cold.mark(end)
        self._launch_ns += _now() - began
        events.append((start, end))
        return output

    def _synchronize(self) -> None:
        self._backend.synchronize()


def _nanoseconds(start: Any, end: Any) -> int:
    return int(start.elapsed_time(end) * 1e6)
