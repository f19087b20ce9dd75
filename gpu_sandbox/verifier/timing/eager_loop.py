"""Calls in a plain Python loop by the verifier's clock: the time that a model in eager mode takes.

Launches and host work count: no flush, no cover, no events, one wait for the device at the end
(``worker_messages.Loop``). Each call has inputs at an address of its own, drawn for the loop, and
secretly chosen outputs are compared. An empty loop of the baseline's worker shows what outputs and
the message take, which is taken off both sides. Loops of N and 2N calls would show that for each
side by itself, but a worker could slow the shorter ones.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Sequence

import torch

from gpu_sandbox.api.statistics import estimate_median, quantile
from gpu_sandbox.ipc.verifier_messages import Looped, WorkerFailed
from gpu_sandbox.ipc.worker_messages import Loop, Timed
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.batches import Batches, Settings, TimedBatch
from gpu_sandbox.verifier.timing.event_batches import EventBatches
from gpu_sandbox.verifier.timing.pairing import Pairing
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.digests import recall_trees
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded

_MAX_CALLS = 64  # of a loop; a message takes some percent of so many of the shortest calls
_MIN_PAIRS, _MAX_PAIRS, _ENOUGH_S = 3, 9, 0.2
_LONG_S = 0.6  # then one pair has to do
_DRAWING_S = 0.02  # for the inputs of a pair
_SLOW_NS = 50e6  # of a call: one loop will do, since the host's share is small
_MIN_WARM_SHARE = 0.25  # of a cold call's device time, which a warm one takes at least


class LoopBatches(Batches):
    """Loops of ``calls`` calls on ``distinct`` sets of inputs, without reported times."""

    def __init__(
        self, task: Task, first: Case, device: torch.device, calls: int, distinct: int
    ) -> None:
        super().__init__(task, first, device, calls)
        self._distinct = EventBatches(task, first, device, min(distinct, calls))

    def draw(self, purpose: str, index: int) -> None:
        """New inputs; each set is used at least once."""
        self.let_go()
        self._distinct.draw(purpose, index)
        sets, self.unusual = self._distinct.cases, self._distinct.unusual
        cases = [*sets, *(secrets.choice(sets) for _ in range(self.calls - len(sets)))]
        secrets.SystemRandom().shuffle(cases)
        self.cases = cases
        self._distinct.let_go()

    def warm(self, *peers: Peer) -> None:
        """Run one loop each on known inputs: the memory for so many outputs is new."""
        self.cases = [self._first] * self.calls
        for peer in peers:
            self._looped(peer, 0, ())

    def run(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> TimedBatch:
        return self._looped(peer, seed, chosen)

    def empty_ns(self, peer: Peer) -> int:
        """Wall time of a loop without its calls, by a trusted worker."""
        return self._looped(peer, 0, (), empty=True).wall_ns

    def choose(self) -> list[int]:
        """The last call where the reference returns what its next call overwrites."""
        return [self.calls - 1] if self._task.returns_state else super().choose()

    def _looped(
        self, peer: Peer, seed: int, chosen: Sequence[int], *, empty: bool = False
    ) -> TimedBatch:
        turn = peer.lay(self.layout, self.cases)
        peer.put(self.cases)
        began = time.perf_counter_ns()
        request = Loop(calls=self.calls, first=turn.first, seed=seed, empty=empty)
        timed = peer.ask(request, Timed, "bench")
        wall_ns = time.perf_counter_ns() - began
        outputs = [peer.taken(turn.outputs[number]) for number in chosen]
        changed = bool(chosen) and self._task.mutates
        return TimedBatch(
            0,
            wall_ns,
            0,
            outputs,
            timed.last,
            mutated_inputs=peer.taken(turn.inputs[chosen[0]]) if changed else [],
            trees=recall_trees(peer, timed.last, timed.plain, self.calls, chosen),
        )


def looped(
    pairs: Sequence[Pair], empty_ns: Sequence[float], calls: int, least_ns: tuple[float, float]
) -> Looped:
    """The ratio of pairs of loops, less empty ones. ``least_ns``: what a call of the candidate, and
    of the baseline, takes at least."""
    overhead_ns = quantile(empty_ns, 0.5)

    def each(batches: list[TimedBatch], least: float) -> list[float]:
        return [max((r.wall_ns - overhead_ns) / calls, least, 1.0) for r in batches]

    candidate = each([pair.candidate for pair in pairs], least_ns[0])
    baseline = each([pair.baseline for pair in pairs], least_ns[1])
    found = estimate_median(candidate, baseline, [p.first for p in pairs])
    return Looped(
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        candidate_ms=quantile(candidate, 0.5) / 1e6,
        baseline_ms=quantile(baseline, 0.5) / 1e6,
    )


def time_loops(
    pairing: Pairing,
    reference: Peer,
    peer: Peer,
    task: Task,
    first: Case,
    batches: EventBatches,
    draw_s: float,
    host_ns: float,
    device_ns: tuple[float, float],
) -> Looped | None:
    """Time pairs of loops as long as ``batches`` of such calls; None where there is no memory for
    one. ``draw_s``: drawing the inputs of a call; ``host_ns``: queueing a call of the baseline;
    ``device_ns``: a call of the candidate, and of the baseline. Raises ``Ended``.

    Outputs of all calls exist at once. Where a candidate has no memory for them, a loop of one
    call has to do."""
    each_ns = max(host_ns, *device_ns)
    calls = batches.long_enough(round(each_ns), 0.0, _DRAWING_S, _MAX_CALLS)
    distinct = max(1, int(_DRAWING_S / max(draw_s, 1e-6)))
    least_ns = (_MIN_WARM_SHARE * device_ns[0], _MIN_WARM_SHARE * device_ns[1])
    for count in dict.fromkeys((calls, 1)):
        try:
            loops = LoopBatches(task, first, batches.device, count, distinct)
            if count > 1:
                loops.warm(reference, peer)
            pairs, empty_ns = _taken(pairing, reference, loops, slow=each_ns > _SLOW_NS)
            return looped(pairs, empty_ns, count, least_ns)
        except torch.OutOfMemoryError:
            pass
        except (Ended, ReferenceEnded) as ended:
            if count == 1 or not _lacks_memory(ended):
                raise
    return None


def _taken(
    pairing: Pairing, reference: Peer, loops: LoopBatches, *, slow: bool
) -> tuple[list[Pair], list[float]]:
    """With the wall times of empty loops."""
    pairs: list[Pair] = []
    empty_ns: list[float] = []
    began = time.monotonic()
    for number in itertools.count():
        pairs.append(pairing.looped(loops, number))
        empty_ns.append(loops.empty_ns(reference))
        spent_s = time.monotonic() - began
        enough = spent_s > _LONG_S or (spent_s > _ENOUGH_S and len(pairs) >= _MIN_PAIRS)
        if slow or enough or len(pairs) >= _MAX_PAIRS:
            break
    loops.let_go()
    return pairs, empty_ns


def _lacks_memory(ended: Ended | ReferenceEnded) -> bool:
    finding = ended.finding
    return isinstance(finding, WorkerFailed) and finding.kind == "OutOfMemoryError"
