"""Batches on the CPU: one call, with as little around it as possible.

Whatever a worker does besides its call while the clock runs is overhead that a worker could skip
(``ipc/cpu_call_messages.py``). Outputs stay where the call left them: the worker reports addresses,
the clock stops when its processes are frozen, and only then they are read from its memory
(``worker_memory.py``), so what was not computed by then is not there. Some inputs are overwritten
meanwhile, so that an output that only maps an input's memory shows it. The worker is frozen while
its inputs come, too.
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
    Batches,
    Settings,
    TimedBatch,
    check_reported_time,
)
from gpu_sandbox.verifier.timing.cpu_caches import Eviction
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.digests import digest_of
from gpu_sandbox.verifier.worker_link.worker_memory import Unreadable

_REHEARSALS, _REHEARSAL_S = 4, 0.02
"""Repetitions of the call before, or fewer if they take longer: a worker that repeated it by itself
would find the shared cache warm. One is not enough."""


class SingleCalls(Batches):
    """Batches of one call: inputs that are seen together can be worked on together."""

    def __init__(self, task: Task, first: Case, device: torch.device) -> None:
        super().__init__(task, first, device, calls=1)
        self._eviction = Eviction(torch.get_num_threads())
        self._may_alias = first.aliasing
        self._items = [expected.native.element_size() for expected in first.expected]
        self._answer = Answer([len(spot.shape) for spot in self.layout.outputs[0]])

    def run(
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
            answer = self._answer.decode(said)
            mapped = self._mapped_bytes(peer, answer[1]) if answer and chosen else 0
            outputs = self._read(peer, answer[1]) if answer and chosen else None
            compares = chosen and not self._task.mutates
            intact = self.intact(peer, 0) if compares else None  # or it could restore them first
            mutated = peer.taken(turn.inputs[0]) if chosen and self._task.mutates else []
            late_ns = peer.used_while(after)
        if answer is None:
            peer.take(Failed, "bench")
            raise AssertionError("a failure is no Failed")
        ran = self._description(peer, answer[1], answer[2], outputs, expected=bool(chosen))
        beyond_ns = ahead_ns + late_ns
        wall_ns = after.since_ns - began + beyond_ns
        reported_ns = check_reported_time(peer, [answer[0]], 1, wall_ns)
        handled_ns = min(max(ran.handled_ns, 0), wall_ns - reported_ns)
        return TimedBatch(
            reported_ns,
            wall_ns,
            0,
            [outputs] if outputs is not None else [],
            ran,
            cpu_ns=after.used_since(before) + beyond_ns,
            handled_ns=handled_ns,
            copied_ns=min(max(ran.copied_ns, 0), handled_ns),
            mapped_bytes=mapped,
            intact=intact,
            mutated_inputs=mutated,
        )

    def _description(
        self,
        peer: Peer,
        places: list[Where],
        plain: bytes,
        outputs: list[torch.Tensor] | None,
        *,
        expected: bool,
    ) -> Ran:
        """What the worker says of its output. Ends one that contradicts what it answered."""
        ran = peer.ask(Describe(), Ran, "bench")
        if digest_of(peer, ran.tree) != plain:
            raise peer.ended(Forged(reason="its output is not what it was when it answered"))
        # Leaves that are not written differ from what is expected, which the verdict reports.
        complete = sum(leaf.written for leaf in ran.leaves) == len(self.layout.outputs[0])
        if expected and outputs is None and complete:
            raise peer.ended(Forged(reason="its outputs are not where it says"))
        described = zip(outputs or [], ran.leaves, strict=False)  # maybe not all of them
        if any(overlapping(output) and not leaf.overlapping for output, leaf in described):
            raise peer.ended(Forged(reason="elements of its outputs share memory, and it says not"))
        self._check_places(peer, places, ran)
        return ran

    def _mapped_bytes(self, peer: Peer, found: list[Where]) -> int:
        """Before they are read: that maps what was not there."""
        spots = self.layout.outputs[0]
        there = [pair for pair in zip(spots, found, strict=True) if pair[1].address != NOWHERE]
        return peer.mapped_bytes(there)

    def _check_places(self, peer: Peer, found: list[Where], ran: Ran) -> None:
        """Compare the description of how outputs lie with where the worker says that they are."""
        shapes = [spot.shape for spot in self.layout.outputs[0]]
        spots = list(zip(found, shapes, self._items, strict=True))
        shared = sharing([extent_at(at.address, shape, at.stride, n) for at, shape, n in spots])
        for does, (at, shape, _), leaf in zip(shared, spots, ran.leaves, strict=False):
            if does and not leaf.shared:
                raise peer.ended(Forged(reason="its outputs share memory, and it says not"))
            if at.address != NOWHERE and leaf.in_order and not in_order(shape, at.stride):
                raise peer.ended(Forged(reason="its elements lie in another order than it says"))

    def _read(self, peer: Peer, found: list[Where]) -> list[torch.Tensor] | None:
        """None if they can't be read. Those that may not be an input's memory are read while inputs
        are overwritten."""
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
