"""The CPU's release: one call in two steps, so that nothing can be left out of it.

A worker knows where its outputs are copied to before it is asked, and what that copy takes is
in what the baseline spends outside its calls: who computes straight into the place would be
credited with a copy that it left out. So first the worker calls its model and says how long
that took. Then stretches of its inputs are overwritten (``spoiling.py``), and only then it
learns where its outputs belong, somewhere else each time. Who still has to compute has not the
inputs any more, and who kept them has paid for a copy.

What a worker does besides its call, while the clock runs, is as little as can be
(``signals.py``): it is credited to whoever leaves it out.

The clock goes on in between: a worker that works on meanwhile is not to do so for nothing. So
what is done there is little, and done as soon as the worker says anything; whether the inputs
are intact is looked at after the release, when they have been put back.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import torch

from gpu_sandbox.child.arena import ALIGN
from gpu_sandbox.child.caches import Eviction
from gpu_sandbox.child.cases import Case
from gpu_sandbox.child.peer import Peer
from gpu_sandbox.child.reference import Task
from gpu_sandbox.child.releases import Batch, Released, Settings, believable
from gpu_sandbox.child.signals import (
    CLAIM_BYTES,
    DELIVERED,
    PLACE_BYTES,
    SEED_BYTES,
    claimed,
)
from gpu_sandbox.messages import Describe, Done, Failed, Ran, Spot, StandBy

__all__ = ["OneCall"]

_PLACES = 64
"""Where outputs may belong: who guesses has to be right in half of all pairs to gain by it."""

_REHEARSALS, _REHEARSAL_S = 4, 0.02
"""Of the call before, or fewer if they take longer. A softmax of 2 MB that repeated it by itself,
and kept the other side waiting, was 1.35 times as fast as one that did not; once is not enough."""


class OneCall(Batch):
    """Of one call, because who sees several inputs at once can do their work together."""

    _room = (_PLACES - 1) * ALIGN

    def __init__(self, task: Task, first: Case, device: torch.device) -> None:
        super().__init__(task, first, device, calls=1)
        self._eviction = Eviction(torch.get_num_threads())
        # An output that is a view of an input would be overwritten with it.
        self._spoils = not any(first.aliasing)

    def long_enough(self, once_ns: int, draw_s: float, time_s: float, most: int) -> int:
        return 1

    def release(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> Released:
        peer.lay(self.layout, self.cases)
        number = secrets.randbelow(_PLACES)
        places = [_moved(spot, ALIGN * number) for spot in self.layout.outputs[0]]
        start = seed.to_bytes(SEED_BYTES, "little", signed=True)
        place = number.to_bytes(PLACE_BYTES, "little")
        peer.get_ready(places)
        spoiling = peer.spoiling(self.layout.inputs[0] if self._spoils else [])
        self._eviction.evict()
        rehearsals = _REHEARSALS if settings.rehearses else 0
        standing = StandBy(places=_PLACES, rehearsals=rehearsals, within_s=_REHEARSAL_S)
        peer.ask(standing, Done, "bench")
        used_ns = peer.cpu_ns()
        began = time.perf_counter_ns()
        peer.put(self.layout, self.cases)
        given = time.perf_counter_ns()
        peer.tell(start, "bench")
        peer.wait("bench")
        spoiling.spoil()
        elapsed_ns = claimed(peer.told(CLAIM_BYTES, "bench"))
        if elapsed_ns < 0:
            peer.take(Failed, "bench")
        peer.tell(place, "bench")
        peer.wait("bench")
        if peer.told(len(DELIVERED), "bench") != DELIVERED:
            peer.take(Failed, "bench")
        answered = time.perf_counter_ns()
        outputs = [peer.taken(places) for _ in chosen]
        ended = time.perf_counter_ns()
        cpu_ns = peer.cpu_ns() - used_ns
        spoiling.undo()
        wall_ns, own_ns = ended - began, ended - answered + given - began
        claim_ns = believable(peer, [elapsed_ns], 1, wall_ns)
        ran = peer.ask(Describe(), Ran, "bench")
        return Released(claim_ns, wall_ns, cpu_ns, own_ns, outputs, ran)


def _moved(spot: Spot, shift: int) -> Spot:
    return Spot(spot.offset + shift, spot.shape, spot.stride, spot.dtype)
