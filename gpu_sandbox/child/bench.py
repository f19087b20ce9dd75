"""Timing in pairs: one release of the candidate, one of the baseline, in random order.

The candidate's readings are claims. The baseline runs in a worker of its own through the
same code, so what its release spent outside the calls (messages, copies, flushes, seeds)
is what the candidate's may have spent there; its wall clock less that bounds the
candidate's time from above, whatever it claims (``pairs.py``). How far a claim is believed
beside that bound is in ``belief.py``: on a busy machine it is noisy, but it cannot be forged.

On a GPU that bound is loose: a worker that leaves out the flushes and covers of the cold
cache can hide its calls in their time. And calls that are released together can be worked
on together, which is not what a module is called for. So on a GPU some are queued behind
gates afterwards (``passages.py``): what the outer clock makes of these bounds the claim, too.
"""

from __future__ import annotations

import itertools
import math
import os
import secrets
import time
from collections.abc import Callable

import torch

from events.outcomes import Label
from gpu_sandbox.child import sifting
from gpu_sandbox.child.alone import DISTURBED, Alone
from gpu_sandbox.child.baseline import Baseline, warm
from gpu_sandbox.child.belief import agree, believed, borne_out
from gpu_sandbox.child.cases import Case
from gpu_sandbox.child.clocks import Clocks
from gpu_sandbox.child.conversation import Ended
from gpu_sandbox.child.pairs import Pair, Pairing, bounded, claimed, unbelieved
from gpu_sandbox.child.passages import Judgement, Passages
from gpu_sandbox.child.peer import Peer
from gpu_sandbox.child.reference import Task
from gpu_sandbox.child.telling import RESOLUTION_NS, labels_on_cpu, timing_labels
from gpu_sandbox.child.writing import least_ns
from gpu_sandbox.jobs import Agreed, Job, WorkerSilent
from gpu_sandbox.messages import Done
from gpu_sandbox.paired import (
    Estimate,
    has_both_orders,
    mean_over_median,
    quantile,
    relative_spread,
)

__all__ = ["Bench"]

_PATIENCE = 3
_ENOUGH = 2
_FEWEST_CHANGED, _ENOUGH_CHANGED = 3, 5
"""Releases that had changed inputs: five are all kinds of them (``surprises.py``)."""
_MOST_LOOKED_S = 60.0
"""That looking again at outputs may take: or what it returns would hold the device for long."""
_COARSEST = 0.1
_BLUR = 0.05
"""Of a GPU release's wall: by so much the same one was seen to differ between processes."""
_REST_BLUR = 0.02
"""The same on the CPU, of what a release takes besides its calls."""
_ATTEMPTS = 2
_BY_TURNS = 1.15
"""Times as long as in the median of pairs is what calls take in the mean of most."""


class Bench:
    """Made before ``peer`` has loaded the candidate: the baseline is measured alone then."""

    def __init__(
        self,
        task: Task,
        baseline: Baseline,
        reference: Peer,
        peer: Peer,
        job: Job,
        device: torch.device,
        first: Case,
        notes: list[str],
        clocks: Clocks,
    ) -> None:
        self._task = task
        self._clocks = clocks
        self._reference = reference
        self._job = job
        self._device = device
        self._first = first
        self._notes = notes
        self._baseline = baseline
        self._bytes = baseline.moved_bytes
        self._least_ns = least_ns(self._bytes[1]) if device.type == "cpu" else 0.0
        baseline.get_ready()
        self._releases = baseline.releases
        self._alone = Alone(baseline)
        self._warm = False
        self._passages: Passages | None = None
        if device.type == "cuda" and not baseline.slow:
            each_ns, calls = self._alone.claim_ns / self._releases.calls, baseline.gated_calls
            written = self._bytes[1]
            self._passages = Passages(task, reference, peer, device, first, calls, each_ns, written)

    def run(self, peer: Peer, worst: float, *, end_candidate: Callable[[float], None]) -> Agreed:
        """Pairs until the interval is narrow, or the time is up. Raises ``Ended``.

        ``end_candidate``, given how many ms a call of it takes, has its process ended, to see
        what the baseline does without.
        """
        pairing = Pairing(
            self._task, self._reference, peer, self._job.protocol, self._first, self._clocks
        )
        self._warm_up(peer)
        for attempt in range(1, _ATTEMPTS + 1):
            taken = self._taken(pairing, attempt)
            pairs = self._counted(taken)
            if self._alone.disturbance(pairs) < DISTURBED:
                break
        self._notes += sifting.notes(taken, pairs, self._clocks)
        passages = self._passages
        if passages is None:  # the candidate's process is needed no more
            self._measure_again(pairs, end_candidate)
        judgement = Judgement(self._believed(pairs), unbelieved(pairs).ratio)
        if passages is not None:
            baseline_ns = self._baseline_ns(pairs)
            judgement = passages.judge(pairing, peer, judgement, baseline_ns, self._job.bench_s)
            self._notes += [judgement.note] if judgement.note else []
            self._measure_again(pairs, end_candidate)
        self._note_load()
        return self._agreed(pairs, judgement, worst)

    def _measure_again(self, pairs: list[Pair], end_candidate: Callable[[float], None]) -> None:
        """What the baseline does without the candidate, where it did worse beside it."""

        def suspect() -> bool:
            grew = self._alone.rest_grew(pairs) and not self._borne_out(pairs)
            return grew or self._alone.disturbance(pairs) >= DISTURBED

        if suspect():
            end_candidate(self._candidate_ms(pairs))
            self._alone.measure_again(suspect, self._job.bench_s)

    # --- pairs

    def work_ahead(self, peer: Peer) -> bool:
        """A piece of what ``run`` needs and what is not timed; False when it's enough."""
        if not self._warm and not self._baseline.slow:
            self._warm_up(peer)
            return True
        return self._releases.draw_ahead(_purpose(1), self._fewest_and_most()[0])

    def _warm_up(self, peer: Peer) -> None:
        """Once, by our own clock, not by claims: a worker's slow clock must not buy it hours.
        Slow models are warm after the correctness trials."""
        if self._warm or self._baseline.slow:
            return
        self._warm = True
        self._releases.draw("warm", 0)
        released = self._releases.release(peer, self._baseline.settings, secrets.randbits(48))
        once_s = released.wall_ns / self._releases.calls / 1e9
        for spots in self._releases.layout.outputs:  # the same inputs again: not the answer
            peer.scramble(spots)
        peer.ask(warm(self._job.protocol, once_s), Done, "warm-up")

    def _taken(self, pairing: Pairing, attempt: int) -> list[Pair]:
        """Too few pairs are worth waiting for, but not for ever: slow models get fewer."""
        began, looked_s = time.monotonic(), pairing.looked_s
        taken: list[Pair] = []
        purpose, settings = _purpose(attempt), self._baseline.settings
        self._clocks.read()
        for made in itertools.count(1):
            pair = pairing.pair(self._releases, settings, purpose, made - 1)
            if pair.counts:
                taken.append(pair)
            forgiven_s = min(pairing.looked_s - looked_s, _MOST_LOOKED_S)
            spent_s = time.monotonic() - began - forgiven_s
            if self._is_enough(taken, made, spent_s):
                break
        self._clocks.read()
        self._releases.forget_ahead()
        return taken

    def _is_enough(self, taken: list[Pair], made: int, spent_s: float) -> bool:
        """Raises ``Ended`` where time goes by and pairs are not for what their calls take: a
        candidate that is late where it is not timed could choose how few there are, so that its
        score were one lucky reading, and changed inputs hardly came (``surprises.py``)."""
        patience_s = _PATIENCE * self._job.bench_s
        if spent_s > patience_s and (why := self._alone.late(taken, made, spent_s)):
            self._notes.append(f"it was late where it is not timed: {why}")
            raise Ended(WorkerSilent(stage="bench", limit_s=patience_s))
        pairs, (least, wanted) = self._counted(taken), self._fewest_and_most()
        affordable = math.ceil(patience_s / self._alone.due_s(taken, 1))
        changed = min(max(_FEWEST_CHANGED, affordable // 4), _ENOUGH_CHANGED)
        if not self._releases.has_changed(changed) and made < 3 * min(least, affordable):
            return False
        if len(pairs) >= wanted:
            return True
        if len(pairs) >= least:
            return spent_s > self._job.bench_s or self._settled(pairs)
        if not pairs or len(taken) < affordable:  # who is late would have fewer than that
            return False
        self._notes.append(f"only {len(pairs)} pairs: the time was up")
        return True

    def _counted(self, taken: list[Pair]) -> list[Pair]:
        return sifting.sifted(taken) if self._job.protocol.sifts else taken

    def _fewest_and_most(self) -> tuple[int, int]:
        protocol, calls = self._job.protocol, self._releases.calls
        most = math.ceil(protocol.max_pairs / (calls if protocol.mean else 1))
        return min(protocol.min_pairs, most), most

    def _settled(self, pairs: list[Pair]) -> bool:
        """The claim's interval is narrow, and the outer clock bears it out, or can't: it
        has a resolution, and waiting does not give it a better one for long."""
        if not has_both_orders([p.first for p in pairs]):
            return False
        claim = self._claimed(pairs)
        each_ns = self._baseline_ns(pairs) * min(claim.ratio, 1.0)
        on_cpu = self._device.type == "cpu"
        resolution = 0.0 if on_cpu else min(RESOLUTION_NS / each_ns, _COARSEST)
        if claim.half_width >= max(self._job.protocol.half_width, resolution):
            return False
        if len(pairs) >= _ENOUGH * self._job.protocol.min_pairs:
            return True
        return agree(claim, self._bounded(pairs), self._blur(pairs))

    # --- what the pairs say

    def _bounded(self, pairs: list[Pair]) -> Estimate:
        return bounded(pairs, self._device, self._alone.most_rest_ns)

    def _claimed(self, pairs: list[Pair]) -> Estimate:
        return claimed(pairs, mean=self._job.protocol.mean)

    def _borne_out(self, pairs: list[Pair]) -> bool:
        return borne_out(self._claimed(pairs), self._bounded(pairs), self._blur(pairs))

    def _believed(self, pairs: list[Pair]) -> Estimate:
        claim = self._claimed(pairs)
        least = min(1.0, self._least_ns / self._baseline_ns(pairs))
        gated, blur = self._device.type == "cuda", self._blur(pairs)
        found, why = believed(claim, self._bounded(pairs), blur, gated=gated, least=least)
        if why:
            told = f"{1 / found.ratio:.2f}x, not the {1 / claim.ratio:.2f}x"
            self._notes.append(f"scored by {why}: {told} that its own process claims")
        return found

    def _blur(self, pairs: list[Pair]) -> float:
        """What the outer clock may be off by, as a ratio. On a GPU a release lasts many times
        as long as its calls, and the same one differs by some percent between processes; on the
        CPU what it takes besides its calls does. Held against what that is without a candidate,
        which could stretch it."""
        claim_ns = quantile([float(p.baseline.claim_ns) for p in pairs], 0.5)
        rest_ns = quantile([float(p.baseline.rest_ns) for p in pairs], 0.5)
        if self._device.type == "cpu":
            return _REST_BLUR * min(rest_ns, self._alone.rest_ns) / claim_ns
        return _BLUR * (claim_ns + min(rest_ns, self._alone.most_rest_ns)) / claim_ns

    def _agreed(self, pairs: list[Pair], judgement: Judgement, worst: float) -> Agreed:
        found = judgement.found
        allowance = self._allowance(pairs) * self._by_turns(pairs, found.ratio)
        baseline_ms = self._baseline_ns(pairs) / 1e6
        labels = self._labels(pairs, found, 1e6 * baseline_ms * min(found.ratio, 1.0))
        self._notes += [f"{label}: {why}" for label, why in labels.items()]
        return Agreed(
            ratio=found.ratio * allowance,
            ratio_low=found.low * allowance,
            ratio_high=found.high * allowance,
            bounded_ratio=max(judgement.at_most, found.ratio) * allowance,
            pairs=len(pairs),
            candidate_ms=self._candidate_ms(pairs),
            candidate_spread=relative_spread([float(p.candidate.claim_ns) for p in pairs]),
            baseline_ms=baseline_ms,
            max_abs_error=worst,
            doubted=found.ratio * allowance > self._claimed(pairs).ratio,
            input_bytes=self._bytes[0],
            output_bytes=self._bytes[1],
            labels=list(labels),
        )

    def _labels(self, pairs: list[Pair], found: Estimate, each_ns: float) -> dict[Label, str]:
        """Slow calls need no gate: flushes and covers are as nothing beside them."""
        if self._device.type == "cpu":
            blur_ns = self._blur(pairs) * self._baseline_ns(pairs)
            output_ns = quantile([float(p.baseline.output_ns) for p in pairs], 0.5)
            return labels_on_cpu(blur_ns, output_ns, each_ns)
        undecided = self._passages.undecided if self._passages is not None else ""
        return timing_labels(found, each_ns, undecided)

    def _candidate_ms(self, pairs: list[Pair]) -> float:
        """Of one call, as it says."""
        return self._typical([p.candidate.claim_ns for p in pairs]) / self._releases.calls / 1e6

    def _baseline_ns(self, pairs: list[Pair]) -> float:
        """Of one call."""
        return self._typical([p.baseline.claim_ns for p in pairs]) / self._releases.calls

    def _typical(self, values: list[int]) -> float:
        if self._job.protocol.mean:
            return sum(values) / len(values)
        return quantile([float(v) for v in values], 0.5)

    def _allowance(self, pairs: list[Pair]) -> float:
        """What a ratio must be multiplied with, so that slowing the baseline buys nothing.

        Asked when the candidate is gone, if it was seen several times: what is slow then,
        too, is the machine.
        """
        times = self._alone.disturbance(pairs)
        if times < DISTURBED:
            return 1.0
        told = f"the baseline takes {times:.2f} times as long while the candidate's process lives"
        self._notes.append(f"{told}: scored against its time without")
        return times

    def _by_turns(self, pairs: list[Pair], scored: float) -> float:
        """What the ratio that is ``scored`` must be multiplied with where calls take this or that,
        so that the median is what they take at best: who is careful in some calls, lest their
        inputs be changed ones, is scored by the mean, if not by more already."""
        if self._job.protocol.mean:
            return 1.0
        times = mean_over_median(
            [float(p.candidate.claim_ns) for p in pairs],
            [float(p.baseline.claim_ns) for p in pairs],
            [p.first for p in pairs],
        )
        mean = times * self._claimed(pairs).ratio
        if times < _BY_TURNS or mean <= scored:
            return 1.0
        told = f"its calls take now less, now more: scored by their mean, {times:.2f} times"
        self._notes.append(f"{told} the median")
        return mean / scored

    def _note_load(self) -> None:
        """Pairing takes out drift, not a machine with more to run than it has cores."""
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        if self._device.type == "cpu" and load > 1.5 * cores:
            self._notes.append(f"the machine was busy (load {load:.1f} on {cores} cores)")


def _purpose(attempt: int) -> str:
    return f"timed/{attempt}"
