"""Batches on a GPU: several calls on a cold cache, each timed by a pair of the device's events."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpu_sandbox.ipc.worker_messages import Time, Timed
from gpu_sandbox.verifier.timing.batches import (
    Batches,
    Settings,
    TimedBatch,
    check_reported_time,
)
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.digests import recall_trees

_LONG_NS = 8_000_000
FEW_CALLS, MANY_CALLS = 16, 48
"""At most, of a batch: to time pairs, which differ by more than their calls do; and to see from
outside what calls take, or where calls are to follow each other."""
_WANTED_BATCHES = 8


class EventBatches(Batches):
    """All calls at once, each with its own place for inputs and outputs."""

    def long_enough(self, once_ns: int, draw_s: float, time_s: float, most: int) -> int:
        """How many calls make a batch long enough to time from outside, ``most`` at most.

        Each batch costs a change of context. No more than memory has room for, or than take too
        much of ``time_s`` to draw (``draw_s`` each)."""
        each = max(self.layout.total_bytes // self.calls, 1)
        affordable = int(time_s / _WANTED_BATCHES / max(draw_s, 1e-6))
        room = self._affordable_bytes() // each
        return max(1, min(most, room, affordable, -(-_LONG_NS // max(once_ns, 1))))

    def run(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> TimedBatch:
        return self._timed(peer, settings, seed, chosen, empty=False)

    def run_empty(self, peer: Peer, settings: Settings, seed: int) -> TimedBatch:
        """With a kernel on one element in place of the model."""
        return self._timed(peer, settings, seed, (), empty=True)

    def _timed(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int], *, empty: bool
    ) -> TimedBatch:
        if settings.kernels:
            peer.give_kernels(settings.kernels)
        turn = peer.lay(self.layout, self.cases)
        request = Time(
            calls=self.calls,
            first=turn.first,
            seed=seed,
            flush_bytes=settings.flush_bytes,
            cover_us=settings.cover_us,
            empty=empty,
        )
        began = time.perf_counter_ns()
        peer.put(self.cases)
        given = time.perf_counter_ns()
        timed = peer.ask(request, Timed, "bench")
        answered = time.perf_counter_ns()
        taken = iter(peer.taken([s for number in chosen for s in turn.outputs[number]]))
        outputs = [[next(taken) for _ in turn.outputs[number]] for number in chosen]
        mutates = bool(chosen) and self._task.mutates
        mutated = peer.taken(turn.inputs[chosen[0]]) if mutates else []
        ended = time.perf_counter_ns()
        wall_ns, transfer_ns = ended - began, ended - answered + given - began
        reported_ns = check_reported_time(peer, timed.elapsed_ns, self.calls, wall_ns)
        return TimedBatch(
            max(reported_ns - settings.reading_ns * self.calls, 1),
            wall_ns,
            transfer_ns,
            outputs,
            timed.last,
            launch_ns=max(timed.launch_ns, 0),
            loop_ns=max(timed.loop_ns, 0),
            mutated_inputs=mutated,
            trees=recall_trees(peer, timed.last, timed.plain, self.calls, chosen),
        )
