"""Releases whose calls are let in one after the other: no call's inputs are there before
the outputs of the call before it were delivered.

Calls that are released together can be worked on together; these can't. The two processes
take turns over host memory (``turns.py``): a message, or a change of the device's context,
costs 0.2 ms and varies as much, a turn a few microseconds. A worker that says too early
that it is done has the outputs of calls that it can't know of missing.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence

import torch

from gpu_sandbox.child.arena import Arena, lay_out, reach_of
from gpu_sandbox.child.peer import Ended, Peer
from gpu_sandbox.child.reference import Case, Task
from gpu_sandbox.child.releases import Released, Releases, Settings, believable
from gpu_sandbox.child.turns import TURNS_BYTES, Turns
from gpu_sandbox.jobs import Forged, WorkerSilent
from gpu_sandbox.messages import Time, Timed

__all__ = ["Chain"]

_CALLS = 16
_LARGEST_BYTES = 16 << 20


class Chain(Releases):
    """Every call in the same place. CUDA only."""

    def __init__(self, task: Task, first: Case, device: torch.device) -> None:
        super().__init__(task, first, device, _CALLS)
        self._tree = first.tree
        self._layout = lay_out(first.tensors, [e.native for e in first.expected], 1)
        self._inputs_end = reach_of(self._layout.inputs[0])
        self._staged = [_host_memory(self._layout.total_bytes) for _ in range(_CALLS)]
        self._taken = [_host_memory(self._layout.total_bytes) for _ in range(_CALLS)]

    @staticmethod
    def possible(task: Task, first: Case) -> bool:
        """Small enough to go through host memory, and called with the same numbers and
        structure each time."""
        layout = lay_out(first.tensors, [e.native for e in first.expected], 1)
        return (
            0 < layout.total_bytes <= _LARGEST_BYTES
            and bool(layout.outputs[0])
            and task.draw("chained", 0).tree == first.tree
        )

    def draw(self, purpose: str, index: int) -> None:
        super().draw(purpose, index)
        for staged, case in zip(self._staged, self.cases, strict=True):
            for view, tensor in zip(
                staged.views(self._layout.inputs[0]), case.tensors, strict=True
            ):
                view.copy_(tensor)

    def release(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> Released:
        request = Time(
            calls=self.calls,
            seed=seed,
            flush_bytes=settings.flush_bytes,
            cover_us=settings.cover_us,
            chained=True,
        )
        peer.lay(self._layout, self.cases[:1])
        shared = peer.share_host(self._layout.total_bytes + TURNS_BYTES)
        turns = Turns(shared, self._layout.total_bytes)
        turns.reset()
        used_ns = peer.cpu_ns()
        began = time.perf_counter_ns()
        peer.send(request, "bench")
        self._take_turns(peer, shared, turns, chosen)
        timed = peer.take(Timed, "bench")
        wall_ns = time.perf_counter_ns() - began
        cpu_ns = peer.cpu_ns() - used_ns
        claim_ns = believable(timed, self.calls, wall_ns)
        outputs = [self._output(number) for number in chosen]
        return Released(claim_ns, wall_ns, cpu_ns, outputs, timed.last)

    def _take_turns(self, peer: Peer, shared: Arena, turns: Turns, chosen: Sequence[int]) -> None:
        deadline = time.monotonic() + peer.call_s

        def still() -> None:
            if peer.said_something():  # an error, or its end: never the answer yet
                peer.take(Timed, "bench")
                raise Ended(Forged(reason="the worker answered before its turn"))
            if time.monotonic() > deadline:
                raise Ended(WorkerSilent(stage="bench", limit_s=peer.call_s))

        end, size = self._inputs_end, self._layout.total_bytes
        for number, staged in enumerate(self._staged):
            ctypes.memmove(shared.address, staged.address, end)
            turns.given.value = number + 1
            turns.wait(turns.done, number + 1, still)
            if number in chosen:
                taken = self._taken[number].address + end
                ctypes.memmove(taken, shared.address + end, size - end)

    def _output(self, number: int) -> list[torch.Tensor]:
        views = self._taken[number].views(self._layout.outputs[0])
        return [view.to(self._device, copy=True) for view in views]

    def intact(self, peer: Peer, number: int) -> bool:
        """Of the last call's, which alone are still there."""
        if number != self.calls - 1:
            return True
        return peer.intact(self._layout.inputs[0], self.cases[number].tensors)


def _host_memory(size: int) -> Arena:
    return Arena(torch.empty(size, dtype=torch.uint8))
