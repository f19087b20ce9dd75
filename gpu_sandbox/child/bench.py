"""Timing in pairs: one batch of the candidate, one of the baseline, in random order.

The worker's own reading is a claim; the verifier reads its clock from request to reply
as well. On the CPU, where nothing else lies between, a claim that is far from that is
forgery. On CUDA the bound is left for later (docs/sandbox.md).
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable

import torch

from gpu_sandbox.child.clock import Clocked
from gpu_sandbox.child.judge import check_output
from gpu_sandbox.child.peer import Ended, Peer
from gpu_sandbox.child.reference import Case, Task, derived_seed
from gpu_sandbox.messages import (
    Agreed,
    Done,
    Fetch,
    Forged,
    Job,
    Measured,
    Ran,
    Time,
    Timed,
    Warm,
)
from gpu_sandbox.paired import Estimate, estimate_mean, estimate_median, quantile

__all__ = ["Bench", "measure_alone"]

_BATCH_NS = {"cpu": 10_000_000, "cuda": 1_000_000}
_MAX_CALLS = {"cpu": 10_000, "cuda": 20}
_ROTATED_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}
_SLOTS = 3
_SLOW_S = 0.5
_PATIENCE = 3
_LIE_SHARE = 0.25
_LIE_NS = 4_000_000
_CHECK_SHARE = 0.2


class Bench:
    """Pairs until the interval is narrow, or the time is up."""

    def __init__(
        self,
        task: Task,
        peer: Peer,
        job: Job,
        device: torch.device,
        worst: float | None,
        notes: list[str],
    ) -> None:
        self._task = task
        self._peer = peer
        self._job = job
        self._device = device
        self._worst = worst
        self._notes = notes
        self._cases = _drawn(task, device, exact=job.protocol.allclose is None)
        inputs, self._outputs = peer.put(self._cases)
        self._baseline = _clocked(task, self._cases, device)
        if not task.mutates:
            # Both sides read the very same memory: a private copy in huge pages, beside
            # shared memory in small ones, made identical code differ by a tenth and more.
            self._baseline.slots = {
                slot: peer.arguments(case, spots)
                for slot, (case, spots) in enumerate(zip(self._cases, inputs, strict=True))
            }
        self._flush = _flush_bytes(job, device)
        self._slow = task.forward_s > _SLOW_S
        self._checkable = not task.mutates and (
            self._slow or not task.again(self._cases[0], other_seed=True)
        )
        self._check_cost_s = 0.0
        self._gaps_ns: list[int] = []
        self._claims_ns: list[int] = []

    def run(self) -> Agreed:
        calls_c, calls_b = self._calibrated()
        self._claims_ns.clear()
        self._gaps_ns.clear()
        candidate, baseline = self._pairs(calls_c, calls_b)
        self._judge_claims()
        self._note_load()
        found = self._estimate(candidate, baseline)
        return Agreed(
            ratio=found.ratio,
            ratio_low=found.low,
            ratio_high=found.high,
            pairs=len(candidate),
            candidate_ms=self._typical(candidate) / 1e6,
            baseline_ms=self._typical(baseline) / 1e6,
            max_abs_error=self._worst,
        )

    def _calibrated(self) -> tuple[int, int]:
        """Warm both sides up, then how many calls of each make one sample.

        By our own clock, not by claims: a worker's slow clock must not buy it hours.
        Slow models are warm after the correctness trials, and one call is enough.
        """
        if self._slow:
            return 1, 1
        protocol = self._job.protocol
        calls = protocol.warmup_calls
        warm = _warm(calls, protocol.warmup_s, self._candidate_wall_ns(1))
        self._peer.ask(warm, Done, "warm-up")
        warm = _warm(calls, protocol.warmup_s, self._baseline_ns(1, 0))
        self._baseline.warm(warm.calls, warm.seconds)
        if protocol.mean and self._device.type == "cuda":
            return 1, 1
        calls_c = _batch_size(self._candidate_wall_ns, self._device)
        calls_b = _batch_size(lambda calls: self._baseline_ns(calls, 0), self._device)
        if self._device.type == "cuda":  # each call has its own events: only their number counts
            calls_c = calls_b = max(calls_c, calls_b)
        return calls_c, calls_b

    def _candidate_wall_ns(self, calls: int) -> int:
        self._candidate_ns(calls, 0)
        return self._peer.wall_ns

    def _pairs(self, calls_c: int, calls_b: int) -> tuple[list[float], list[float]]:
        """Nanoseconds per call of both sides, pair by pair.

        Too few pairs are worth waiting for, but not for ever: slow models get fewer.
        """
        protocol = self._job.protocol
        began = time.monotonic()
        candidate: list[float] = []
        baseline: list[float] = []
        while len(candidate) < protocol.max_pairs:
            slot = len(candidate) % len(self._cases)
            if random.random() < 0.5:
                c = self._candidate_ns(calls_c, slot)
                b = self._baseline_ns(calls_b, slot)
            else:
                b = self._baseline_ns(calls_b, slot)
                c = self._candidate_ns(calls_c, slot)
            candidate.append(c / calls_c)
            baseline.append(b / calls_b)
            self._check(slot + calls_c - 1, len(candidate))
            spent_s = time.monotonic() - began
            if len(candidate) < protocol.min_pairs:
                if spent_s > _PATIENCE * self._job.bench_s:
                    self._notes.append(f"only {len(candidate)} pairs: the time was up")
                    break
            elif (
                spent_s > self._job.bench_s
                or self._estimate(candidate, baseline).half_width < protocol.half_width
            ):
                break
        return candidate, baseline

    def _candidate_ns(self, calls: int, slot: int) -> int:
        seed = derived_seed(self._job.seed, "timed", random.getrandbits(32))
        if calls == 1:  # then dropout, too, draws what the expected output was made with
            seed = self._cases[slot].forward_seed
        request = Time(calls=calls, first_slot=slot, flush_bytes=self._flush, seed=seed)
        claim = self._peer.ask(request, Timed, "bench").elapsed_ns
        if claim <= 0 or claim > self._peer.wall_ns:
            raise Ended(Forged(reason="it claims a time that can't be"))
        self._gaps_ns.append(self._peer.wall_ns - claim)
        self._claims_ns.append(claim)
        return claim

    def _baseline_ns(self, calls: int, slot: int) -> int:
        return max(self._baseline.batch(calls, slot, self._flush, self._job.seed), 1)

    def _check(self, last: int, pair: int) -> None:
        """Check a timed call's output: the first, some at random, fewer when it is dear."""
        if not self._checkable:
            return
        dear = self._check_cost_s > 0.05
        if pair > 1 and (dear or random.random() > _CHECK_SHARE):
            return
        began = time.perf_counter()
        self._peer.poison(self._outputs)
        ran = self._peer.ask(Fetch(outputs=self._outputs), Ran, "bench")
        case = self._cases[last % len(self._cases)]
        check_output(self._peer, case, ran, self._outputs, self._job.protocol, None)
        self._check_cost_s = time.perf_counter() - began

    def _judge_claims(self) -> None:
        if self._device.type != "cpu":
            return
        gap = quantile(self._gaps_ns, 0.5)
        claim = quantile(self._claims_ns, 0.5)
        if gap > _LIE_SHARE * claim + _LIE_NS:
            reason = f"it claims {claim / 1e6:.3f} ms of {(claim + gap) / 1e6:.3f} ms"
            raise Ended(Forged(reason=reason))

    def _note_load(self) -> None:
        """Pairing takes out drift, not a machine with more to run than it has cores."""
        load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
        if self._device.type == "cpu" and load > 1.5 * cores:
            self._notes.append(f"the machine was busy (load {load:.1f} on {cores} cores)")

    def _estimate(self, candidate: list[float], baseline: list[float]) -> Estimate:
        estimate = estimate_mean if self._job.protocol.mean else estimate_median
        return estimate(candidate, baseline)

    def _typical(self, values: list[float]) -> float:
        if self._job.protocol.mean:
            return sum(values) / len(values)
        return quantile(values, 0.5)


def measure_alone(task: Task, job: Job, device: torch.device) -> Measured:
    """The baseline by itself, through the same code as its half of the pairs."""
    cases = _drawn(task, device, exact=False)
    clocked = _clocked(task, cases, device)
    flush = _flush_bytes(job, device)
    protocol = job.protocol
    deadline = time.monotonic() + job.bench_s
    warm = _warm(protocol.warmup_calls, protocol.warmup_s, clocked.batch(1, 0, flush, job.seed))
    clocked.warm(warm.calls, warm.seconds)
    calls = 1
    if not (protocol.mean and device.type == "cuda"):
        calls = _batch_size(lambda calls: clocked.batch(calls, 0, flush, job.seed), device)
    samples: list[float] = []
    while len(samples) < max(protocol.min_pairs, 50):
        samples.append(clocked.batch(calls, len(samples), flush, job.seed) / calls / 1e6)
        if time.monotonic() > deadline:
            break
    middle = quantile(samples, 0.5)
    return Measured(
        runtime_ms=sum(samples) / len(samples) if protocol.mean else middle,
        spread=(quantile(samples, 0.95) - quantile(samples, 0.05)) / middle,
        repetitions=len(samples) * calls,
    )


def _drawn(task: Task, device: torch.device, *, exact: bool) -> list[Case]:
    """The timed input sets: several where memory allows, so that none stays cached."""
    cases = [task.draw("timed", 0)]
    size = sum(t.numel() * t.element_size() for t in cases[0].tensors)
    if size <= _ROTATED_BYTES[device.type]:
        cases += [task.draw("timed", index) for index in range(1, _SLOTS)]
    for case in cases:
        task.solve(case, exact=exact)
    return cases


def _clocked(task: Task, cases: list[Case], device: torch.device) -> Clocked:
    clocked = Clocked(task.model, device)
    clocked.slots = {slot: case.arguments for slot, case in enumerate(cases)}
    return clocked


def _flush_bytes(job: Job, device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    if job.protocol.flush_bytes is not None:
        return job.protocol.flush_bytes
    return 2 * int(torch.cuda.get_device_properties(device).L2_cache_size)


def _warm(calls: int, seconds: float, once_ns: int) -> Warm:
    """Slow models are warm after the correctness trials; don't spend minutes again."""
    once_s = once_ns / 1e9
    if once_s > _SLOW_S:
        return Warm(calls=1, seconds=0.0)
    return Warm(calls=max(1, min(calls, math.ceil(2.0 / max(once_s, 1e-6)))), seconds=seconds)


def _batch_size(batch_ns: Callable[[int], int], device: torch.device) -> int:
    """How many calls last long enough, found by doubling and more.

    The shortest of three readings decides: on a busy machine one alone may be mostly
    waiting, and too small a batch would drown the claim's check in noise.
    """
    wanted, most = _BATCH_NS[device.type], _MAX_CALLS[device.type]
    calls = 1
    while True:
        spent = max(batch_ns(calls), 1)
        if spent >= wanted / 2 or calls == most:
            spent = max(1, min(spent, batch_ns(calls), batch_ns(calls)))
        if spent >= wanted / 2 or calls == most:
            return max(1, min(most, math.ceil(calls * wanted / spent)))
        calls = min(most, calls * 20, math.ceil(calls * wanted / spent))
