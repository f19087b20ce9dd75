"""Timing in pairs: one release of the candidate, one of the baseline, in random order.

The candidate's readings are claims. The baseline runs in a worker of its own through the
same code, so what its release spent outside the calls (messages, copies, flushes, seeds)
is what the candidate's may have spent there; the rest of the wall clock bounds the
candidate's time from above, whatever it claims (``Pair``). Where a claim is below that
bound by more than a twentieth, with 95 % certainty, or by more than a quarter, certain or
not, the bound is the score: on a busy machine it is noisy, but it cannot be forged.
"""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable, Sequence

import msgspec
import torch

from gpu_sandbox.child.baseline import Baseline, warm
from gpu_sandbox.child.judge import check_shape, check_values
from gpu_sandbox.child.peer import Ended, Peer
from gpu_sandbox.child.reference import Case, Task
from gpu_sandbox.child.releases import Released
from gpu_sandbox.jobs import Agreed, Differs, Job
from gpu_sandbox.messages import Done
from gpu_sandbox.paired import Estimate, estimate_bound, estimate_mean, estimate_median, quantile

__all__ = ["Bench"]

_PATIENCE = 3
_ALONE_RELEASES = 5
_BELIEVED_EXCESS = 1.05
_BELIEVED_DOUBT = 1.25
_ENOUGH = 2
_DISTURBED = 1.15
_ATTEMPTS = 3


class Pair(msgspec.Struct, frozen=True):
    """One release of each side."""

    candidate: Released
    baseline: Released

    @property
    def wall_bound_ns(self) -> float:
        """The candidate's time if nothing that it says is believed, but that messages,
        copies and flushes cost it what they cost the baseline."""
        return float(self.candidate.wall_ns - self.baseline.rest_ns)

    def cpu_bound_ns(self, threads: int) -> float:
        """The same from the processor time, were it spread evenly over ``threads``: less
        than the truth for whatever waits, but a busy machine does not add to it."""
        rest = self.baseline.cpu_ns - self.baseline.claim_ns * threads
        return (self.candidate.cpu_ns - max(rest, 0)) / threads


class Bench:
    """Made before the candidate is loaded: the baseline is measured alone then."""

    def __init__(
        self,
        task: Task,
        reference: Peer,
        job: Job,
        device: torch.device,
        first: Case,
        notes: list[str],
    ) -> None:
        self._task = task
        self._reference = reference
        self._job = job
        self._device = device
        self._first = first
        self._notes = notes
        self._baseline = Baseline(task, reference, job, device, first)
        self._releases = self._baseline.releases
        self._alone_ns = self._measured_alone("alone")

    def run(self, peer: Peer, worst: float, *, alone: Callable[[], None]) -> Agreed:
        """Pairs until the interval is narrow, or the time is up. Raises ``Ended``.

        ``alone`` has the candidate's process ended, to see what the baseline does without.
        """
        checkable = not self._task.again(self._first, other_seed=False)
        self._warm_up(peer)
        for attempt in range(1, _ATTEMPTS + 1):
            pairs = self._pairs(peer, attempt, checkable)
            if self._disturbance(pairs) < _DISTURBED:
                break
        else:
            alone()
            self._alone_ns = max(self._alone_ns, self._measured_alone("after"))
        self._note_load()
        return self._agreed(pairs, worst, self._allowance(pairs))

    def _measured_alone(self, purpose: str) -> float:
        """Median claim of a release while no candidate is there. Slow models: one."""
        releases = 1 if self._baseline.slow else _ALONE_RELEASES
        return quantile(self._baseline.alone_ns(releases, purpose), 0.5)

    # --- pairs

    def _warm_up(self, peer: Peer) -> None:
        """By our own clock, not by claims: a worker's slow clock must not buy it hours.
        Slow models are warm after the correctness trials."""
        if self._baseline.slow:
            return
        self._releases.draw("warm", 0)
        released = self._releases.release(peer, self._baseline.settings, secrets.randbits(48))
        once_s = released.wall_ns / self._releases.calls / 1e9
        for spots in self._releases.layout.outputs:  # the same inputs again: not the answer
            peer.scramble(spots)
        peer.ask(warm(self._job.protocol, once_s), Done, "warm-up")

    def _pairs(self, peer: Peer, attempt: int, checkable: bool) -> list[Pair]:
        """Too few pairs are worth waiting for, but not for ever: slow models get fewer."""
        protocol, calls = self._job.protocol, self._releases.calls
        began = time.monotonic()
        pairs: list[Pair] = []
        wanted = math.ceil(protocol.max_pairs / (calls if protocol.mean else 1))
        least = min(protocol.min_pairs, wanted)
        while len(pairs) < wanted:
            self._releases.draw(f"timed/{attempt}", len(pairs))
            pair = self._pair(peer)
            self._check(peer, pair, checkable)
            pairs.append(Pair(pair.candidate.bare(), pair.baseline.bare()))
            spent_s = time.monotonic() - began
            if len(pairs) < least:
                if spent_s > _PATIENCE * self._job.bench_s:
                    self._notes.append(f"only {len(pairs)} pairs: the time was up")
                    break
            elif spent_s > self._job.bench_s or self._settled(pairs):
                break
        return pairs

    def _pair(self, peer: Peer) -> Pair:
        seed = secrets.randbits(48)
        settings = self._baseline.settings
        if secrets.randbits(1):
            candidate = self._releases.release(peer, settings, seed)
            baseline = self._releases.release(self._reference, settings, seed)
        else:
            baseline = self._releases.release(self._reference, settings, seed)
            candidate = self._releases.release(peer, settings, seed)
        return Pair(candidate, baseline)

    def _check(self, peer: Peer, pair: Pair, checkable: bool) -> None:
        """What the candidate made of some inputs against what the baseline did."""
        candidate, layout = pair.candidate, self._releases.layout
        check_shape(self._first, candidate.last, None)
        for number, got in zip(candidate.chosen, candidate.outputs, strict=True):
            tensors = self._releases.cases[number].tensors
            if not self._task.mutates and not peer.intact(layout.inputs[number], tensors):
                raise Ended(Differs(reason="it changed its inputs"))
            if checkable:
                truth = self._reference.taken(layout.outputs[number])
                expected = [
                    e.of_another(t) for e, t in zip(self._first.expected, truth, strict=True)
                ]
                check_values(expected, got, self._job.protocol, None)

    def _settled(self, pairs: list[Pair]) -> bool:
        """The claim's interval is narrow, and the outer clock bears it out, or can't: it
        has a resolution, and waiting does not give it a better one for long."""
        claimed = self._claimed(pairs)
        if claimed.half_width >= self._job.protocol.half_width:
            return False
        if len(pairs) >= _ENOUGH * self._job.protocol.min_pairs:
            return True
        return self._bounded(pairs).ratio <= claimed.ratio * _BELIEVED_EXCESS

    # --- what the pairs say

    def _agreed(self, pairs: list[Pair], worst: float, allowance: float) -> Agreed:
        found = claimed = self._claimed(pairs)
        bounded = self._bounded(pairs)
        surely = bounded.low > claimed.ratio * _BELIEVED_EXCESS
        if surely or bounded.ratio > claimed.ratio * _BELIEVED_DOUBT:
            found = bounded
            self._notes.append(
                f"scored by the outer clock: {1 / bounded.ratio:.2f}x, not the "
                f"{1 / claimed.ratio:.2f}x that its own process claims"
            )
        calls = self._releases.calls
        return Agreed(
            ratio=found.ratio * allowance,
            ratio_low=found.low * allowance,
            ratio_high=found.high * allowance,
            bounded_ratio=max(bounded.ratio, found.ratio) * allowance,
            pairs=len(pairs),
            candidate_ms=self._typical([p.candidate.claim_ns for p in pairs]) / calls / 1e6,
            baseline_ms=self._typical([p.baseline.claim_ns for p in pairs]) / calls / 1e6,
            max_abs_error=worst,
        )

    def _claimed(self, pairs: list[Pair]) -> Estimate:
        return self._estimate([p.candidate.claim_ns for p in pairs], pairs)

    def _bounded(self, pairs: list[Pair]) -> Estimate:
        """By the verifier's clock, or on the CPU by the kernel's account, if that is more."""
        baseline = [float(p.baseline.claim_ns) for p in pairs]
        wall = estimate_bound([p.wall_bound_ns for p in pairs], baseline)
        if self._device.type != "cpu":
            return wall
        threads = torch.get_num_threads()
        cpu = estimate_bound([p.cpu_bound_ns(threads) for p in pairs], baseline)
        return max(wall, cpu, key=lambda estimate: estimate.ratio)

    def _estimate(self, candidate: Sequence[float], pairs: list[Pair]) -> Estimate:
        estimate = estimate_mean if self._job.protocol.mean else estimate_median
        return estimate(candidate, [p.baseline.claim_ns for p in pairs])

    def _typical(self, values: list[int]) -> float:
        if self._job.protocol.mean:
            return sum(values) / len(values)
        return quantile([float(v) for v in values], 0.5)

    def _disturbance(self, pairs: list[Pair]) -> float:
        """How many times as long the baseline takes beside the candidate as without it."""
        beside = quantile([float(p.baseline.claim_ns) for p in pairs], 0.5)
        return beside / self._alone_ns

    def _allowance(self, pairs: list[Pair]) -> float:
        """What a ratio must be multiplied with, so that slowing the baseline buys nothing.

        Asked when the candidate is gone, if it was seen several times: what is slow then,
        too, is the machine.
        """
        times = self._disturbance(pairs)
        if times < _DISTURBED:
            return 1.0
        told = f"the baseline takes {times:.2f} times as long while the candidate's process lives"
        self._notes.append(f"{told}: scored against its time without")
        return times

    def _note_load(self) -> None:
        """Pairing takes out drift, not a machine with more to run than it has cores."""
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        if self._device.type == "cpu" and load > 1.5 * cores:
            self._notes.append(f"the machine was busy (load {load:.1f} on {cores} cores)")
