"""Releases behind a gate: the worker queues its calls on the device, then the inputs come.

Nothing but the calls themselves, and the copy of their outputs, lies between the opening
of the gate and the end: no flush, no cover, no launch, that a worker could leave out to
hide its calls in. So the difference between two workers' walls is that of their calls.
CUDA only. A forward that waits for the device itself can't be queued ahead; then its
launches are part of what it takes.
"""

from __future__ import annotations

import ctypes
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from gpu_sandbox.child.arena import Arena, lay_out, reach_of
from gpu_sandbox.child.cases import Case
from gpu_sandbox.child.peer import Peer
from gpu_sandbox.child.reference import Task
from gpu_sandbox.child.releases import Released, Releases, Settings
from gpu_sandbox.child.turns import TURNS_BYTES, Turns
from gpu_sandbox.jobs import Forged, WorkerSilent
from gpu_sandbox.messages import Gate, Time, Timed

__all__ = ["Chain", "Gated", "GatedBatch"]

_CHAIN_CALLS, _FEWER_CALLS = 16, 8
_CHAIN_BYTES = 16 << 20
_MANY_BYTES = 4 << 20
_QUEUE_S = (1.0, 0.25, 0.0)
"""How long calls may take to be queued, after so many releases in a row that were not."""
_COPIES = 3


class Gated(Releases):
    """What chains and gated batches share."""

    _gate: Gate
    _host_bytes: int

    def copy_ns(self) -> float:
        """What copying a call's outputs takes, which a call need not leave to be done."""
        outputs = [e.native for e in self._first.expected]
        event: Any = torch.cuda.Event
        took: list[float] = []
        for _ in range(_COPIES):
            torch.cuda.synchronize(self.device)
            start, end = event(enable_timing=True), event(enable_timing=True)
            start.record()
            for tensor in outputs:
                tensor.clone()
            end.record()
            end.synchronize()
            took.append(start.elapsed_time(end) * 1e6)
        return min(took)

    def release(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> Released:
        return self.passed(peer, seed, chosen)

    def passed(
        self, peer: Peer, seed: int, chosen: Sequence[int] = (), *, empty: bool = False
    ) -> Released:
        """Without claims. ``empty``: all but the model, by a worker that is trusted: that of
        the reference, or one that has no candidate yet."""
        self._lay(peer)
        shared = peer.share_host(self._host_bytes)
        turns = Turns(shared)
        turns.reset()
        request = Time(
            calls=self.calls, seed=seed, flush_bytes=0, cover_us=0, gate=self._gate, empty=empty
        )
        peer.send(request, "bench")
        self._let_queue(peer, turns)
        used_ns = peer.cpu_ns()
        began = time.perf_counter_ns()
        taken, timed = self._let_in(peer, shared, turns, chosen)
        wall_ns = time.perf_counter_ns() - began
        cpu_ns = peer.cpu_ns() - used_ns
        outputs = [[tensor.to(self.device) for tensor in tensors] for tensors in taken]
        return Released(0, wall_ns, cpu_ns, 0, outputs, timed.last)

    def _let_queue(self, peer: Peer, turns: Turns) -> None:
        """Not for long: a forward that waits for the device waits for us."""
        deadline = time.monotonic() + _QUEUE_S[min(peer.unqueued, len(_QUEUE_S) - 1)]

        def go_on() -> bool:
            return not peer.said_something() and time.monotonic() < deadline

        peer.unqueued = 0 if turns.wait(turns.queued, 1, go_on) else peer.unqueued + 1
        if peer.said_something():
            peer.take(Timed, "bench")
            raise peer.ended(Forged(reason="the worker answered before its turn"))

    def _await_turn(self, peer: Peer, turns: Turns, number: int) -> None:
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

    @abstractmethod
    def _lay(self, peer: Peer) -> None: ...

    @abstractmethod
    def _let_in(
        self, peer: Peer, shared: Arena, turns: Turns, chosen: Sequence[int]
    ) -> tuple[list[list[torch.Tensor]], Timed]:
        """Give the inputs, and take the chosen outputs."""


class Chain(Gated):
    """Calls that are let in one by one, through host memory: no call's inputs are there
    before the outputs of the call before it are, so they can't be worked on together. A
    worker that says too early that a call is done lacks outputs that it can't know of.
    """

    _gate = "each"

    def __init__(self, task: Task, first: Case, device: torch.device) -> None:
        self._layout = lay_out(first.tensors, [e.native for e in first.expected], 1)
        self._size = self._layout.total_bytes
        calls = _CHAIN_CALLS if self._size <= _MANY_BYTES else _FEWER_CALLS
        super().__init__(task, first, device, calls)
        self._host_bytes = TURNS_BYTES + self._size
        self._inputs_end = reach_of(self._layout.inputs[0])
        self._staged = [_host_memory(self._size) for _ in range(self.calls)]
        self._taken = [_host_memory(self._size) for _ in range(self.calls)]

    @staticmethod
    def possible(task: Task, first: Case) -> bool:
        """Small enough, and called with the same numbers and structure each time."""
        layout = lay_out(first.tensors, [e.native for e in first.expected], 1)
        small = 0 < layout.total_bytes <= _CHAIN_BYTES
        return small and task.draw("chained", 0).tree == first.tree

    def draw(self, purpose: str, index: int) -> None:
        super().draw(purpose, index)
        for staged, case in zip(self._staged, self.cases, strict=True):
            views = staged.views(self._layout.inputs[0])
            for view, tensor in zip(views, case.tensors, strict=True):
                view.copy_(tensor)

    def intact(self, peer: Peer, number: int) -> bool:
        """Of the last call's, which alone are still there."""
        if number != self.calls - 1:
            return True
        return peer.intact(self._layout.inputs[0], self.cases[number].tensors)

    def _lay(self, peer: Peer) -> None:
        peer.lay(self._layout, self.cases[:1])

    def _let_in(
        self, peer: Peer, shared: Arena, turns: Turns, chosen: Sequence[int]
    ) -> tuple[list[list[torch.Tensor]], Timed]:
        start, middle, end = shared.address + TURNS_BYTES, self._inputs_end, self._size
        for number, staged in enumerate(self._staged):
            ctypes.memmove(start, staged.address, middle)
            turns.given.value = number + 1
            self._await_turn(peer, turns, number + 1)
            if number in chosen:
                taken = self._taken[number].address
                ctypes.memmove(taken + middle, start + middle, end - middle)
        timed = peer.take(Timed, "bench")
        spots = self._layout.outputs[0]
        return [self._taken[number].views(spots) for number in chosen], timed


class GatedBatch(Gated):
    """Calls that are let in together: for inputs too large to go through host memory."""

    _gate = "once"
    _host_bytes = TURNS_BYTES

    def __init__(self, task: Task, first: Case, device: torch.device, calls: int) -> None:
        super().__init__(task, first, device, calls)
        self._layout = lay_out(first.tensors, [e.native for e in first.expected], calls)

    def intact(self, peer: Peer, number: int) -> bool:
        return peer.intact(self._layout.inputs[number], self.cases[number].tensors)

    def _lay(self, peer: Peer) -> None:
        peer.lay(self._layout, self.cases)

    def _let_in(
        self, peer: Peer, shared: Arena, turns: Turns, chosen: Sequence[int]
    ) -> tuple[list[list[torch.Tensor]], Timed]:
        peer.put(self._layout, self.cases)
        turns.given.value = 1
        timed = peer.take(Timed, "bench")
        return [peer.taken(self._layout.outputs[number]) for number in chosen], timed


def _host_memory(size: int) -> Arena:
    return Arena(torch.empty(size, dtype=torch.uint8))
