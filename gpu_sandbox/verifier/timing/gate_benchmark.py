"""Gate benchmark: wall times of gated calls, which check self-reported times (``gates.py``).

The baseline and empty batches are measured before there is a candidate, which gains nothing by what
it does to them later. Calls that pass together show what a worker skips; one by one, what it does
together. Both are measured as pairs are, the empty batch in the candidate's own worker before it
has one: what is cold in a cache costs tenths of a millisecond. The rules are in
``wall_clock_bound.py``.
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
from gpu_sandbox.verifier.timing.pairing import Pairing
from gpu_sandbox.verifier.timing.wall_clock_bound import (
    DISPUTED,
    MIN_BATCHES,
    GateCalibration,
    Judgement,
    judge_gated,
    least_slack_ns,
    low,
)
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded

_ALONE, _MIN_ALONE, _ALONE_S = 6, 4, 0.1
_ENOUGH_QUEUED = 5
_MAX_TRIES, _PAUSE_S = 4, 0.1  # where the baseline is slow, too
_WANTED_NS, _MIN_CALLS, _MAX_ROUNDS = 300_000, 8, 32
"""Calls of one batch take so long, many times what batches differ by, or are so many."""
_QUEUED_SHARE = 0.8  # of the calls that a stream had room for: some queue more
_NO_MEMORY = "there is no memory for what waits behind it"
_MIN_WARM_SHARE = 0.25  # that warm calls take of what the baseline reports for cold ones
_READING_SHARE = 0.8  # of what reading events adds to a reported time: it differs by a fifth


class GateBenchmark:
    """Made while there is no candidate. ``calls`` pass together; ``reported_ns`` is of one of the
    baseline's, ``net`` whether without what reading events adds.

    It has no gates that could not tell the baseline's calls from none, and none at all if it waits
    for its device, so that it can't be queued ahead, or memory does not suffice."""

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
        self._reported_ns, self._net = reported_ns, net
        self._task, self._device = task, device
        self.undecided = ""
        """Why no gate decides anything; empty where one does."""
        self._gates: list[tuple[GatedBatches, GateCalibration]] = []
        try:
            self._gates = self._calibrated(calls)
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
        if not self.undecided and not any(gate.decides_warm for _, gate in self._gates):
            self.undecided = "calls this short can't be told from none by it"

    def reported(self, baseline_ns: float) -> None:
        """What the baseline reported for a call in the pairs."""
        self._gates = [(gated, gate.with_reported(baseline_ns)) for gated, gate in self._gates]
        self._note_undecided()

    # --- before there is a candidate

    def _calibrated(self, calls: int) -> list[tuple[GatedBatches, GateCalibration]]:
        """One kind of gate after the other; all or none."""
        found: list[tuple[GatedBatches, GateCalibration]] = []
        enough = max(_MIN_CALLS, math.ceil(_WANTED_NS / max(self._reported_ns, 1.0)))
        calls = min(calls, enough)
        rounds = min(calls, _MAX_ROUNDS) if calls > 1 else 0
        kinds: list[tuple[Gate, int]] = [("once", calls), ("each", rounds)]
        room: GateBuffers | None = None
        for kind, wanted in kinds:
            while wanted and least_slack_ns(wanted) < self._reported_ns * wanted:
                mutates = self._task.mutates
                room = room or GateBuffers(self._first, self._device, wanted, left=mutates)
                gated = GatedBatches(self._task, self._first, room.for_calls(wanted), kind)
                gate = self._calibration(gated)
                gated.let_go()
                if gate is not None:
                    found.append((gated, gate))
                    break
                wanted = min(int(_QUEUED_SHARE * self._reference.queued), wanted - 1)
                self._reference.unqueued = 0
                if wanted < 1:
                    self.undecided = "the reference waits for its device, or launches too much"
                    return []
        return found

    def _calibration(self, gated: GatedBatches) -> GateCalibration | None:
        """As in pairs: two batches of the same inputs, in random order, outputs taken; None if the
        baseline could not be queued. Inputs may be the same each time: ``peer`` is empty yet."""
        walls: list[float] = []
        empties: list[float] = []
        own_empties: list[float] = []
        began = time.monotonic()
        gated.draw(f"gated alone/{gated.gate}", 0)
        for number in range(_ALONE):
            if number >= _MIN_ALONE and time.monotonic() - began > _ALONE_S:
                break
            into = own_empties if number % 2 else walls
            empty_ns, own_ns = self._both(gated, number, empty=into is own_empties)
            if not self._reference.queues:
                return None
            empties.append(empty_ns)
            into.append(own_ns)
        reported_ns = self._reported_ns * gated.calls
        warm_ns = min(walls[1:]) - min(own_empties[1:])
        nothing_ns = events_of(self._device).reading_ns()
        return GateCalibration(
            together=gated.gate == "once",
            calls=gated.calls,
            empty_ns=low(empties[2:]),
            noise_ns=quantile(empties[2:], 0.5) - min(empties[2:]),
            usual_ns=low(walls[1:]),
            warm_ns=min(max(warm_ns, _MIN_WARM_SHARE * reported_ns), reported_ns),
            cold_ns=reported_ns,
            crypt_ns=gated.crypt_ns(nothing_ns),
            reading_ns=0.0 if self._net else _READING_SHARE * nothing_ns,
        )

    def _both(self, gated: GatedBatches, seed: int, *, empty: bool) -> tuple[float, float]:
        """Walls of the empty ``peer`` and of the baseline, which is empty, too, if asked."""
        chosen = gated.choose()
        sides = [(self._peer, True), (self._reference, empty)]
        peer_first = bool(secrets.randbits(1))
        found = [
            float(gated.passed(side, seed, chosen, empty=nothing).wall_ns)
            for side, nothing in (sides if peer_first else reversed(sides))
        ]
        return (found[0], found[1]) if peer_first else (found[1], found[0])

    # --- with the candidate

    def judge(self, pairing: Pairing, peer: Peer, before: Judgement, seconds: float) -> Judgement:
        """Check the reported ratio, in about so many seconds. Raises ``Ended``."""
        if before.found.ratio > DISPUTED:  # no candidate reports that it is slower than it is
            return before
        for gated, gate in self._gates:
            if gate.decides:
                before = self._judged(pairing, peer, gated, gate, before, seconds)
                gated.let_go()
        return before

    def _judged(
        self,
        pairing: Pairing,
        peer: Peer,
        gated: GatedBatches,
        gate: GateCalibration,
        before: Judgement,
        seconds: float,
    ) -> Judgement:
        """Again after a pause where gates do not corroborate the time and the baseline is slow,
        too: a transient slowdown. Who caused it does not matter: the calibration stays."""
        deadline = time.monotonic() + seconds
        walls = (pairing.gated_walls_ns(gated, number) for number in itertools.count())
        after = before
        for attempt in range(_MAX_TRIES):
            if attempt:
                time.sleep(_PAUSE_S)
            after, baseline = _judged_once(walls, peer, gate, before, deadline)
            late = time.monotonic() > deadline
            if late or after.note in ("", before.note) or not gate.is_slowed_by(baseline):
                break
        return after


def _judged_once(
    walls: Iterator[tuple[int, int]],
    peer: Peer,
    gate: GateCalibration,
    before: Judgement,
    deadline: float,
) -> tuple[Judgement, list[float]]:
    """With the baseline's walls. Three times as many batches where the first do not clear the
    candidate. The first of all does not count: its memory is new. A forward that was queued in
    some batches is judged by these."""
    queued: list[float] = []
    others: list[float] = []
    baseline: list[float] = []
    after, least = before, gate.min_batches
    for number in range(3 * least):
        wall_ns, baseline_ns = map(float, next(walls))
        if number == 0:
            continue
        (queued if peer.queues else others).append(wall_ns)
        baseline.append(baseline_ns)
        late = time.monotonic() > deadline and number + 1 >= MIN_BATCHES[-1]
        if number + 1 < least and not late:
            continue
        candidate = queued if len(queued) >= _ENOUGH_QUEUED else [*queued, *others]
        after = judge_gated(gate, candidate, before)
        if late or after.note in ("", before.note):
            break
    return after, baseline
