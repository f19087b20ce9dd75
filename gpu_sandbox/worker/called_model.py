"""A model in a worker, the slots that it is called on, and calls that are not timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.ipc.worker_messages import Ran, Recall, Run
from gpu_sandbox.runtime.module_loader import seed_torch
from gpu_sandbox.tensors.gate_layout import GateKernels
from gpu_sandbox.tensors.memory_layout import storages
from gpu_sandbox.tensors.overwriting import write_over
from gpu_sandbox.worker.backends.backend import ColdCache
from gpu_sandbox.worker.backends.lookup import backend_of
from gpu_sandbox.worker.earlier_outputs import EarlierOutputs
from gpu_sandbox.worker.outputs import (
    Slot,
    deliver,
    describe_outputs,
    in_index_order,
    pack_outputs,
    reclaimable,
)

KEPT_BYTES = 64 << 20
"""Of an output, and of what it is a view of, until the next one is there: no cache holds more."""
_now = time.perf_counter_ns
_seed_cpu = torch.default_generator.manual_seed


class CalledModel:
    """Outputs that are ``owned`` by the caller are overwritten after use, while nothing is timed: a
    model that gets the same memory again has to write all of them.

    ``placed`` counts changes of the slots; ``kernels`` are the harness's own, None where they could
    not be compiled."""

    def __init__(
        self, model: Callable[..., Any], device: torch.device, owned: Sequence[bool] = ()
    ) -> None:
        self._model = model
        self._device = device
        self._backend = backend_of(device)
        self._owned = owned
        self._cold = self._new_cold_cache()
        self._owed: Any = None
        self._before: Any = None
        self._storages: tuple[int, frozenset[int]] = -1, frozenset()
        self._located: list[torch.Tensor] = []
        self._trees: list[Tree] = []
        self._earlier = EarlierOutputs()
        self.slots: dict[int, Slot] = {}
        self.placed = 0
        self.kernels: GateKernels | None = None

    def put_in_order(self) -> None:
        """From now on, return outputs in the order of their indices, as a part of each call."""
        model = self._model
        self._model = lambda *arguments: in_index_order(model(*arguments))

    # --- slots

    def place(self, number: int, slot: Slot) -> None:
        self.slots[number] = slot
        self.placed += 1

    def take_places(self, other: CalledModel) -> None:
        """Share the other one's slots from now on."""
        self.slots = other.slots
        self.placed += 1

    def forget_places(self) -> None:
        self.slots.clear()
        self.placed += 1

    # --- calls

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
            self._give_up(held.pop())  # the last reference to it
        self._backend.synchronize()
        return ran

    def _call_more(self, asked: Run, output: Any) -> None:
        """Call on more slots. Outputs that share memory with ``output`` are not overwritten."""
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
        """Calls and nothing else, for the profiler."""
        with torch.no_grad():
            for number in range(calls):
                self._called(number)

    def repeat_singly(self, calls: int) -> None:
        """One output at a time, on each slot in turn, as memory is measured."""
        slots = list(self.slots.values())
        with torch.no_grad():
            for number in range(calls):
                self._model(*slots[number % len(slots)].arguments)
                self._backend.synchronize()

    def _called(self, number: int) -> Any:
        """Call on each slot in turn; returns the output that is not needed any more. On the CPU as
        a timed call, with its outputs kept: otherwise the allocator gets memory for more of them
        then, which takes longer than the call."""
        slot = list(self.slots.values())[number % len(self.slots)]
        if not self._backend.on_host:
            output = self._model(*slot.arguments)
            self._backend.synchronize()
            return output
        if sum(place.nbytes for place in slot.outputs) > KEPT_BYTES:
            return self._model(*slot.arguments)
        self._time_cpu(0, slot)
        before, self._before = self._before, None
        return before

    def _time_cpu(self, seed: int, slot: Slot) -> int:
        """Nanoseconds of a call, while the output before lives, as it does in ``y = model(x)``.

        Otherwise one allocator returns the same memory each time, which is in the cache, and
        another alternates, for as long as its process lives."""
        model, arguments = self._model, slot.arguments
        self._before, self._owed = self._owed, None
        _seed_cpu(seed)
        began = _now()
        self._owed = model(*arguments)
        return _now() - began

    def recall(self, asked: Recall) -> Ran:
        return Ran(tree=self._trees[asked.call], leaves=[])

    # --- memory

    def release_memory(self) -> None:
        """Give back earlier outputs and the harness's buffers, which are made again when needed."""
        self.forget()
        self._cold = self._new_cold_cache()
        self._backend.release_freed_memory()

    def _new_cold_cache(self) -> ColdCache:
        """None on the CPU, where it is not used."""
        return cast("ColdCache", self._backend.cold_cache())

    def forget(self) -> None:
        """Give up the output of the last call."""
        self._give_up_before()
        self._located.clear()
        self._before, self._owed = self._owed, None
        self._give_up_before()

    def _give_up_before(self) -> None:
        held, self._before = [self._before], None
        if held[0] is not None:
            self._give_up(held.pop())

    def _give_up(self, output: Any, held: Sequence[torch.Tensor] = ()) -> None:
        """Overwrite an output after its end, if this is the last reference: what its end does to
        its memory is undone."""
        memory = reclaimable(output, self._owned, held, self._input_storages())
        del output
        write_over(memory)

    def _input_storages(self) -> frozenset[int]:
        """Addresses of the memory of all slots' inputs."""
        if self._storages[0] != self.placed:
            inputs = [tensor for slot in self.slots.values() for tensor in slot.inputs]
            self._storages = self.placed, frozenset(storages(inputs))
        return self._storages[1]
