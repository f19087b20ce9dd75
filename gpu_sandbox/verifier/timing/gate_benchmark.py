"""What calls behind gates take (``gates.py``): the outer clock's word on a claim.

The baseline, and releases of nothing, are measured before there is a candidate: what it
does to them later buys it nothing. All calls at once show what a worker leaves out; one by
one, where that is possible, what it does together.

Both are measured as pairs are, in turn with each other, and the release of nothing in the
candidate's own worker before it holds the candidate: what is cold in a cache or was woken up
a moment ago costs tenths of a millisecond. What walls say then is for ``wall_clock_bound.py``.
"""

from __future__ import annotations

import itertools
import math
import secrets
import time
from collections.abc import Iterator

import torch

from gpu_sandbox.accelerator.accelerator import NoKernels
from gpu_sandbox.api.statistics import quantile
from gpu_sandbox.ipc.verifier_messages import WorkerFailed
from gpu_sandbox.ipc.worker_messages import Gate
from gpu_sandbox.verifier.backends.lookup import events_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.gates import GateBuffers, GatedBatches
from gpu_sandbox.verifier.timing.pairs import Pairing
from gpu_sandbox.verifier.timing.wall_clock_bound import (
    BELIEVED_DOUBT,
    FEWEST_LOOKS,
    GateCalibration,
    Judgement,
    judged,
    least_slack_ns,
    low,
)
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded

__all__ = ["GateBenchmark"]

_ALONE, _ALONE_AT_LEAST, _ALONE_S = 6, 4, 0.1
_QUEUED_ENOUGH = 5
_SPELLS, _SPELL_S = 4, 0.1
"""How often it is looked where the baseline is slow, too, and how long is waited in between."""
_WANTED_NS, _FEWEST_CALLS, _MOST_ROUNDS = 300_000, 8, 32
"""Calls let in by one release take so long, many times what it may differ from another by; or are
so many. One by one they take longer."""
_QUEUED_SHARE = 0.8
"""Of the calls that a stream had room for: some have more to do."""
_NO_MEMORY = "there is no memory for what waits behind it"
"""Nobody's fault, where there is no candidate yet."""
_WARMEST = 0.25
"""Warm calls of the baseline take at least so much of what it claims for cold ones."""
_READING = 0.8
"""Of what reading the clock adds to a claim, and to no wall: it differs by a fifth at most."""


class GateBenchmark:
    """Made while no candidate is there. ``calls`` are let in at once; ``reported_ns`` is what the
    baseline says of one, ``net`` whether without what reading the clock adds.

    Without those that could not tell its calls from none; without any if it waits for its
    device, so that it can't be queued ahead, or memory does not suffice.
    """

    def __init__(
        self,
        task: Task,
        reference: Peer,
        peer: Peer,
        device: torch.device,
        first: Case,
        calls: int,
        reported_ns: float,
        *,
        net: bool = False,
    ) -> None:
        self._reference = reference
        self._peer = peer
        self._first = first
        self._claim_ns, self._net = reported_ns, net
        self._task, self._device = task, device
        self.undecided = ""
        """Why no gate decides anything; empty where one does."""
        self._passages: list[tuple[GatedBatches, GateCalibration]] = []
        try:
            self._passages = self._all_alone(calls)
        except NoKernels as error:
            self.undecided = str(error)
        except torch.OutOfMemoryError:
            self.undecided = _NO_MEMORY
        except (Ended, ReferenceEnded) as ended:
            if not isinstance(ended.finding, WorkerFailed):
                raise
            self.undecided = _NO_MEMORY
        self._note_undecided()

    def _note_undecided(self) -> None:
        if not self.undecided and not any(passage.decides_warm for _, passage in self._passages):
            self.undecided = "calls this short can't be told from none by it"

    def _all_alone(self, calls: int) -> list[tuple[GatedBatches, GateCalibration]]:
        """One after the other; all or none."""
        found: list[tuple[GatedBatches, GateCalibration]] = []
        enough = max(_FEWEST_CALLS, math.ceil(_WANTED_NS / max(self._claim_ns, 1.0)))
        calls = min(calls, enough)
        rounds = min(calls, _MOST_ROUNDS) if calls > 1 else 0
        ways: list[tuple[Gate, int]] = [("once", calls), ("each", rounds)]
        room: GateBuffers | None = None
        for gate, wanted in ways:
            while wanted and least_slack_ns(wanted) < self._claim_ns * wanted:
                changes = self._task.mutates
                room = room or GateBuffers(self._first, self._device, wanted, left=changes)
                gated = GatedBatches(self._task, self._first, room.for_calls(wanted), gate)
                passage = self._alone(gated)
                gated.let_go()
                if passage is not None:
                    found.append((gated, passage))
                    break
                wanted = min(int(_QUEUED_SHARE * self._reference.queued), wanted - 1)
                self._reference.unqueued = 0
                if wanted < 1:
                    self.undecided = "the reference waits for its device, or launches too much"
                    return []
        return found

    def claim(self, baseline_ns: float) -> None:
        """What the baseline said of a call in the pairs."""
        self._passages = [(g, passage.claiming(baseline_ns)) for g, passage in self._passages]
        self._note_undecided()

    def judge(self, pairing: Pairing, peer: Peer, before: Judgement, seconds: float) -> Judgement:
        """What the passages make of a claim, in about so many seconds. Raises ``Ended``."""
        if before.found.ratio > BELIEVED_DOUBT:  # nobody claims to be slower than it is
            return before
        for gated, passage in self._passages:
            if passage.decides:
                before = self._looked(pairing, peer, gated, passage, before, seconds)
                gated.let_go()
        return before

    def _looked(
        self,
        pairing: Pairing,
        peer: Peer,
        gated: GatedBatches,
        passage: GateCalibration,
        before: Judgement,
        seconds: float,
    ) -> Judgement:
        """Anew in a while where the candidate is not cleared and the baseline is slow, too: a
        machine may be, for tenths of a second. Whose doing that is does not matter, since it is
        judged by the same passage then."""
        deadline = time.monotonic() + seconds
        walls = (pairing.gated_walls_ns(gated, number) for number in itertools.count())
        after = before
        for spell in range(_SPELLS):
            if spell:
                time.sleep(_SPELL_S)
            after, theirs = _judged(walls, peer, passage, before, deadline)
            late = time.monotonic() > deadline
            if late or after.note in ("", before.note) or not passage.slowed(theirs):
                break
        return after

    def _alone(self, gated: GatedBatches) -> GateCalibration | None:
        """As pairs later: two releases of the same inputs, in random order, outputs taken.
        ``peer`` holds nothing yet, so that these may be the same each time."""
        walls: list[float] = []
        empties: list[float] = []
        own_empties: list[float] = []
        began = time.monotonic()
        gated.draw(f"gated alone/{gated.gate}", 0)
        for number in range(_ALONE):
            if number >= _ALONE_AT_LEAST and time.monotonic() - began > _ALONE_S:
                break
            into = own_empties if number % 2 else walls
            empty_ns, own_ns = self._both(gated, number, empty=into is own_empties)
            if not self._reference.queues:
                return None
            empties.append(empty_ns)
            into.append(own_ns)
        reported_ns = self._claim_ns * gated.calls
        warm_ns = min(walls[1:]) - min(own_empties[1:])
        nothing_ns = events_of(self._device).reading_ns()
        return GateCalibration(
            together=gated.gate == "once",
            calls=gated.calls,
            empty_ns=low(empties[2:]),
            noise_ns=quantile(empties[2:], 0.5) - min(empties[2:]),
            usual_ns=low(walls[1:]),
            warm_ns=min(max(warm_ns, _WARMEST * reported_ns), reported_ns),
            own_ns=reported_ns,
            beside_ns=gated.beside_ns(nothing_ns),
            reading_ns=0.0 if self._net else _READING * nothing_ns,
        )

    def _both(self, gated: GatedBatches, seed: int, *, empty: bool) -> tuple[float, float]:
        """Walls of the empty ``peer`` and of the reference, which may be told to be, too."""
        chosen = gated.choose()
        takers = [(self._peer, True), (self._reference, empty)]
        peer_first = bool(secrets.randbits(1))
        found = [
            float(gated.passed(taker, seed, chosen, empty=nothing).wall_ns)
            for taker, nothing in (takers if peer_first else reversed(takers))
        ]
        return (found[0], found[1]) if peer_first else (found[1], found[0])


def _judged(
    walls: Iterator[tuple[int, int]],
    peer: Peer,
    passage: GateCalibration,
    before: Judgement,
    deadline: float,
) -> tuple[Judgement, list[float]]:
    """And the baseline's walls beside it. Thrice as many looks where the first do not clear the
    candidate. The first of all does not count: its memory is new. A forward that was queued in
    some is judged by these."""
    queued: list[float] = []
    others: list[float] = []
    theirs: list[float] = []
    after, fewest = before, passage.looks
    for number in range(3 * fewest):
        wall_ns, own_ns = map(float, next(walls))
        if number == 0:
            continue
        (queued if peer.queues else others).append(wall_ns)
        theirs.append(own_ns)
        late = time.monotonic() > deadline and number + 1 >= FEWEST_LOOKS[-1]
        if number + 1 < fewest and not late:
            continue
        mine = queued if len(queued) >= _QUEUED_ENOUGH else [*queued, *others]
        after = judged(passage, mine, before)
        if late or after.note in ("", before.note):
            break
    return after, theirs
