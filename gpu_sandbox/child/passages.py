"""What calls behind gates take (``gates.py``): the outer clock's word on a claim.

The baseline, and a release of nothing, are measured before there is a candidate: what it
does to them later buys it nothing. All calls at once show what a worker leaves out; one by
one, where that is possible, what it does together.
"""

from __future__ import annotations

import time

import msgspec

from gpu_sandbox.child.gates import Chain, Gated, GatedBatch
from gpu_sandbox.child.pairs import Pairing
from gpu_sandbox.child.peer import Peer
from gpu_sandbox.child.reference import Case, Task
from gpu_sandbox.child.releases import Releases
from gpu_sandbox.paired import Estimate, estimate_bound, quantile

__all__ = ["Judgement", "Passage", "Passages", "judged"]

_ALONE = 5
_FEWEST, _QUEUED_ENOUGH = 10, 5
_FEWEST_IN_NO_TIME = 4
_BELIEVED_DOUBT = 1.25
_BYTES_READ_PER_NS, _BYTES_WRITTEN_PER_NS = 3000.0, 6000.0
_CACHE_BYTES = 64e6
_LATENCY_NS = 1000.0
"""Of large GPUs: how fast the cache is filled, at least, and outputs are written, at most;
how large it is; what the first access to memory takes."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """One way through gates, with what it takes while no candidate is there.

    Nanoseconds of a release of ``calls``: ``empty_ns`` with nothing called, ``own_ns`` what
    the baseline's calls add. Of a call: ``cold_ns`` may be saved by a warm cache, and
    ``least_ns`` is what writing its outputs takes.
    """

    gated: Gated
    calls: int
    empty_ns: float
    own_ns: float
    cold_ns: float
    least_ns: float
    copy_ns: float

    @property
    def together(self) -> bool:
        return not isinstance(self.gated, Chain)


class Judgement(msgspec.Struct, frozen=True):
    """The ratio to score, the most that it can be, and what is to be said about it."""

    found: Estimate
    at_most: float
    note: str = ""


class Passages:
    """Made while no candidate is there. ``claim_ns``: what the baseline says of a call.

    Without any passage if the reference waits for its device: it can't be queued ahead.
    """

    def __init__(
        self, task: Task, reference: Peer, releases: Releases, first: Case, claim_ns: float
    ) -> None:
        self._task = task
        self._reference = reference
        self._first = first
        self._claim_ns = claim_ns
        device, calls = releases.device, releases.calls
        ways: list[Gated] = [GatedBatch(task, first, device, calls)]
        if calls > 1 and Chain.possible(task, first):
            ways.append(Chain(task, first, device))
        self._passages: list[Passage] = []
        for gated in ways:
            passage = self._alone(gated)
            if passage is None:
                self._passages.clear()
                break
            self._passages.append(passage)

    def judge(self, pairing: Pairing, peer: Peer, before: Judgement, seconds: float) -> Judgement:
        """What the passages make of a claim, in about so many seconds. Raises ``Ended``."""
        if before.found.ratio > _BELIEVED_DOUBT:  # nobody claims to be slower than it is
            return before
        for passage in self._passages:
            before = self._looked(pairing, peer, passage, before, seconds)
        return before

    def _looked(
        self, pairing: Pairing, peer: Peer, passage: Passage, before: Judgement, seconds: float
    ) -> Judgement:
        """Thrice as long where the first looks do not clear the candidate. A forward that
        was queued in some of them is judged by these."""
        began = time.monotonic()
        queued: list[float] = []
        others: list[float] = []
        after = before
        for number in range(3 * _FEWEST):
            wall_ns = float(pairing.gated_wall_ns(passage.gated, number))
            (queued if peer.queues else others).append(wall_ns)
            late = time.monotonic() - began > seconds and number + 1 >= _FEWEST_IN_NO_TIME
            if number + 1 < _FEWEST and not late:
                continue
            walls = queued if len(queued) >= _QUEUED_ENOUGH else [*queued, *others]
            after = judged(passage, walls, before)
            if late or not after.note or after.note == before.note:
                break
        return after

    def _alone(self, gated: Gated) -> Passage | None:
        walls: list[float] = []
        empties: list[float] = []
        for number in range(1 + _ALONE):
            gated.draw("gated alone", number)
            walls.append(gated.passed(self._reference, number).wall_ns)
            if not self._reference.queues:
                return None
            empties.append(gated.passed(self._reference, number, empty=True).wall_ns)
        empty_ns = quantile(empties[1:], 0.5)
        warm_ns = quantile(walls[1:], 0.5) - empty_ns
        return Passage(
            gated=gated,
            calls=gated.calls,
            empty_ns=empty_ns,
            own_ns=max(warm_ns, self._claim_ns * gated.calls),
            cold_ns=self._cold_ns(warm_ns / gated.calls),
            least_ns=_LATENCY_NS / 2 + self._written_bytes() / _BYTES_WRITTEN_PER_NS,
            copy_ns=gated.copy_ns(),
        )

    def _cold_ns(self, warm_ns: float) -> float:
        """No more than the bytes there are explain, nor than the baseline itself saves."""
        tensors = [*self._first.tensors, *self._task.model.parameters()]
        size = float(sum(t.numel() * t.element_size() for t in tensors) + self._written_bytes())
        explained = min(size, _CACHE_BYTES) / _BYTES_READ_PER_NS
        return min(explained, max(self._claim_ns - warm_ns, 0.0)) + _LATENCY_NS

    def _written_bytes(self) -> int:
        outputs = [expected.native for expected in self._first.expected]
        return sum(t.numel() * t.element_size() for t in outputs)


def judged(passage: Passage, walls: list[float], before: Judgement) -> Judgement:
    """What the candidate's walls say of the claim in ``before``. Pure.

    Only what is surely slower, by a quarter and what a warm cache saves, is scored by the
    passage; nothing is scored below what writing its outputs takes.
    """
    found, own_ns = before.found, passage.own_ns
    gate = estimate_bound([wall - passage.empty_ns for wall in walls], [own_ns] * len(walls))
    at_most = before.at_most
    if passage.together:  # of calls one by one, what is not theirs is as long as they are
        at_most = min(at_most, quantile(walls, 0.5) / own_ns)
    at_most = max(at_most, gate.ratio + passage.copy_ns * passage.calls / own_ns)
    limit = found.ratio * _BELIEVED_DOUBT + passage.cold_ns * passage.calls / own_ns
    if gate.low > limit:
        told = (
            f"scored by the outer clock: {1 / gate.ratio:.2f}x where calls are let in by a "
            f"gate, not the {1 / found.ratio:.2f}x that its own process claims"
        )
        return Judgement(gate, at_most, told)
    least = passage.least_ns * passage.calls / own_ns
    if found.ratio < least:
        told = f"scored by what writing its outputs takes: {1 / least:.1f}x at most"
        return Judgement(Estimate(least, least, max(least, found.high)), at_most, told)
    return Judgement(found, at_most, before.note)
