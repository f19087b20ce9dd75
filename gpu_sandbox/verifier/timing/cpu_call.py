"""The CPU's release: one call, and nothing that a worker could leave out around it.

What a worker does besides its call, while the clock runs, is in what the baseline spends outside
its calls: whoever leaves it out is credited with it (``ipc/cpu_call_messages.py``). So there is
next to nothing. Outputs stay where the call left them: the worker says where that is, and the clock
stops when its processes lie still. Only then they are read, from its own memory
(``verifier/worker_link/worker_memory.py``): what was not computed by then is not there. Some of its
inputs are spoiled meanwhile: an output that is one of them costs nothing to make, and a second
mapping of that has an address of which nobody knows.

It lies still while its inputs come, too, and the clock starts when it is let go: who watched that
could begin with the first of them, and what a copy of them takes says nothing of its call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from gpu_sandbox.ipc.cpu_call_messages import NOWHERE, SEED_BYTES, Answer, Where
from gpu_sandbox.ipc.verifier_messages import Forged
from gpu_sandbox.ipc.worker_messages import Describe, Done, Failed, Ran, StandBy
from gpu_sandbox.tensors.memory_layout import extent_at, in_order, overlapping, sharing
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.batches import (
    EventBatches,
    Settings,
    TimedBatch,
    check_reported_time,
)
from gpu_sandbox.verifier.timing.cpu_caches import Eviction
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.digests import digest_of
from gpu_sandbox.verifier.worker_link.worker_memory import Unreadable

__all__ = ["SingleCalls"]

_REHEARSALS, _REHEARSAL_S = 4, 0.02
"""Of the call before, or fewer if they take longer. A softmax of 2 MB that repeated it by itself,
and kept the other side waiting, was 1.35 times as fast as one that did not; once is not enough."""


class SingleCalls(EventBatches):
    """Of one call, because who sees several inputs at once can do their work together."""

    def __init__(self, task: Task, first: Case, device: torch.device) -> None:
        super().__init__(task, first, device, calls=1)
        self._eviction = Eviction(torch.get_num_threads())
        self._may_alias = first.aliasing
        self._items = [expected.native.element_size() for expected in first.expected]
        self._answer = Answer([len(spot.shape) for spot in self.layout.outputs[0]])

    def long_enough(self, once_ns: int, draw_s: float, time_s: float, most: int) -> int:
        return 1

    def release(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> TimedBatch:
        turn = peer.lay(self.layout, self.cases)
        start = seed.to_bytes(SEED_BYTES, "little", signed=True)
        self._eviction.evict()
        rehearsals = _REHEARSALS if settings.rehearses else 0
        ready = StandBy(slot=turn.first, rehearsals=rehearsals, within_s=_REHEARSAL_S)
        peer.ask(ready, Done, "bench")
        with peer.stopped() as before:
            peer.put(self.cases)
            ahead_ns = peer.used_while(before)
            began = time.perf_counter_ns()  # before it is let go, and can see them
        peer.send_bytes(start, "bench")
        said = peer.receive_bytes(self._answer.size, "bench")
        with peer.stopped() as after:
            heard = self._answer.decode(said)
            mapped = self._mapped_bytes(peer, heard[1]) if heard and chosen else 0
            outputs = self._read(peer, heard[1]) if heard and chosen else None
            looks = chosen and not self._task.mutates
            intact = self.intact(peer, 0) if looks else None  # or it could put them back before
            left = peer.taken(turn.inputs[0]) if chosen and self._task.mutates else []
            late_ns = peer.used_while(after)
        if heard is None:
            peer.take(Failed, "bench")
            raise AssertionError("a failure is no Failed")
        ran = peer.ask(Describe(), Ran, "bench")
        if digest_of(peer, ran.tree) != heard[2]:
            raise peer.ended(Forged(reason="its output is not what it was when it answered"))
        if chosen and outputs is None and self._are_all_there(ran):
            raise peer.ended(Forged(reason="its outputs are not where it says"))
        told = zip(outputs or [], ran.leaves, strict=False)  # it may not have told of all
        if any(overlapping(output) and not leaf.overlapping for output, leaf in told):
            raise peer.ended(Forged(reason="elements of its outputs share memory, and it says not"))
        self._check_places(peer, heard[1], ran)
        beyond_ns = ahead_ns + late_ns
        wall_ns = after.since_ns - began + beyond_ns
        cpu_ns = after.used_since(before) + beyond_ns
        reported_ns = check_reported_time(peer, [heard[0]], 1, wall_ns)
        found = [outputs] if outputs is not None else []
        handled_ns = min(max(ran.handled_ns, 0), wall_ns - reported_ns)
        return TimedBatch(
            reported_ns,
            wall_ns,
            0,
            found,
            ran,
            cpu_ns=cpu_ns,
            handled_ns=handled_ns,
            copied_ns=min(max(ran.copied_ns, 0), handled_ns),
            mapped_bytes=mapped,
            intact=intact,
            left=left,
        )

    def _mapped_bytes(self, peer: Peer, found: list[Where]) -> int:
        """Before they are read: that maps what was not there."""
        spots = self.layout.outputs[0]
        there = [way for way in zip(spots, found, strict=True) if way[1].address != NOWHERE]
        return peer.mapped_bytes(there)

    def _are_all_there(self, ran: Ran) -> bool:
        """As it says: others differ from what is expected, which the verdict tells."""
        return sum(leaf.written for leaf in ran.leaves) == len(self.layout.outputs[0])

    def _check_places(self, peer: Peer, found: list[Where], ran: Ran) -> None:
        """What it says of how its outputs lie against where it says that they are."""
        shapes = [spot.shape for spot in self.layout.outputs[0]]
        spots = list(zip(found, shapes, self._items, strict=True))
        shared = sharing([extent_at(at.address, shape, at.stride, n) for at, shape, n in spots])
        for does, (at, shape, _), leaf in zip(shared, spots, ran.leaves, strict=False):
            if does and not leaf.shared:
                raise peer.ended(Forged(reason="its outputs share memory, and it says not"))
            if at.address != NOWHERE and leaf.in_order and not in_order(shape, at.stride):
                raise peer.ended(Forged(reason="its elements lie in another order than it says"))

    def _read(self, peer: Peer, found: list[Where]) -> list[torch.Tensor] | None:
        """None if they can't be. Those that may be no input's memory while inputs are spoiled."""
        spots = self.layout.outputs[0]
        read: dict[int, torch.Tensor] = {}
        own = [number for number, may in enumerate(self._may_alias) if not may]
        try:
            with peer.spoiled(peer.turn.inputs[0]) if own else nullcontext():
                for number in own:
                    read[number] = peer.read(spots[number], found[number])
            for number, may in enumerate(self._may_alias):
                if may:
                    read[number] = peer.read(spots[number], found[number])
        except Unreadable:
            return None
        return [read[number] for number in range(len(spots))]
