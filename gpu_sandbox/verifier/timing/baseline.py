"""Baseline: the reference in a worker of its own, warmed up, timed like the candidate and alone."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import msgspec
import torch

from gpu_sandbox.accelerator.accelerator import NoKernels
from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.api.statistics import quantile, relative_spread
from gpu_sandbox.contention.thresholds import medians_apart
from gpu_sandbox.ipc.verifier_messages import Job, Measured
from gpu_sandbox.ipc.worker_messages import Done, Warm
from gpu_sandbox.verifier.backends.backend import Backend, EventClock
from gpu_sandbox.verifier.backends.lookup import backend_of, events_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.batches import Settings, TimedBatch
from gpu_sandbox.verifier.timing.cpu_caches import SharedCacheTraffic
from gpu_sandbox.verifier.timing.cpu_call import SingleCalls
from gpu_sandbox.verifier.timing.event_batches import FEW_CALLS, MANY_CALLS, EventBatches
from gpu_sandbox.verifier.timing.launch_cover import HostTime, cover_us, host_time
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.verifier.timing.work_estimate import moved_bytes
from gpu_sandbox.verifier.worker_link.client import Peer

_SLOW_S = 0.5
_READINGS = 3
_AHEAD_BYTES = 1 << 28  # of a call: with less, it may warm up while others use the device


class Baseline:
    """Once ready, it has the ``batches`` of both sides, the ``gated_calls`` of one behind gates,
    and ``slow``: whether batches are of one call because it takes so long."""

    def __init__(
        self, task: Task, reference: Peer, job: Job, device: torch.device, first: Case
    ) -> None:
        self.slow = False
        backend = backend_of(device)
        self.settings = _settings(job, backend)
        self.batches = (
            SingleCalls(task, first, device)
            if backend.on_host
            else EventBatches(task, first, device, calls=1)
        )
        self.gated_calls = 1
        self.draw_s = 0.0
        """To draw the inputs of a call; not measured where calls are slow."""
        self._task = task
        self._first = first
        self._device = device
        self._peer = reference
        self._job = job
        self.moved_bytes = moved_bytes(task, first)
        """Read and written by a call."""
        self._traffic = SharedCacheTraffic(sum(self.moved_bytes)) if backend.on_host else None
        self._warm = False
        self._ready = False
        self._least_cover_us = self.settings.cover_us
        self._host = HostTime(0, 0, 0)

    def work_ahead(self) -> bool:
        """Warm up while others may disturb the device. False: there is no more to do."""
        if self._task.forward_s < _SLOW_S and self.batches.layout.total_bytes < _AHEAD_BYTES:
            self._warm_up()
        return False

    def get_ready(self) -> None:
        """Once, on an undisturbed device: this decides how a candidate is timed, so no earlier
        candidate may influence it."""
        if self._ready:
            return
        self._ready = True
        self.slow = self._slow_by_itself()
        if self.slow:
            return
        self._warm_up()
        began = time.perf_counter()
        self.batches.draw("alone", 1)
        self.draw_s = draw_s = time.perf_counter() - began
        first = [self._run() for _ in range(3)]
        if isinstance(self.batches, EventBatches):
            once_ns = min(one.reported_ns for one in first)
            few = MANY_CALLS if self._job.protocol.mean else FEW_CALLS
            calls, self.gated_calls = (
                self.batches.long_enough(once_ns, draw_s, self._job.bench_s, most)
                for most in (few, MANY_CALLS)
            )
            if calls > 1:
                self.batches = EventBatches(self._task, self._first, self._device, calls)
                self.batches.draw("alone", 0)
                first = [self._run() for _ in range(2)][1:]  # it had to find memory before
        # Inputs that a call changed are not what it had.
        rehearses = self._traffic is not None and not self._task.mutates
        self.settings = msgspec.structs.replace(self.settings, rehearses=rehearses)
        self._host = first[-1].host_time(self.batches.calls)
        self.cover(self._host)
        if self.settings.cover_us and isinstance(self.batches, EventBatches):
            self._measure_event_overhead(self.batches)

    def _measure_event_overhead(self, batches: EventBatches) -> None:
        """What events read beyond device time, in a trusted worker: processes differ by tenths of a
        microsecond. Without covers it can't be told from launches."""
        read = [
            batches.run_empty(self._peer, self.settings, self._job.seed).reported_ns
            for _ in range(_READINGS)
        ]
        kernel_ns = events_of(batches.device).kernel_ns
        beyond_ns = max(round(min(read) / batches.calls - kernel_ns), 0)
        self.settings = msgspec.structs.replace(self.settings, reading_ns=beyond_ns)

    def cover(self, host: HostTime) -> int:
        """Hide the host's work of either side from now on. Returns how many µs covers grew."""
        before, least_us = self.settings, self._least_cover_us
        both = host_time([host, self._host])
        longer = cover_us(least_us, both, before.flush_bytes)
        self.settings = msgspec.structs.replace(before, cover_us=max(before.cover_us, longer))
        return self.settings.cover_us - before.cover_us

    def _slow_by_itself(self) -> bool:
        """Whether a second forward is slow, too: the first one loads libraries."""
        if self._task.forward_s < _SLOW_S:
            return False
        began = time.perf_counter()
        self._task.forward(self._first)
        return min(time.perf_counter() - began, self._task.forward_s) > _SLOW_S

    def _warm_up(self) -> None:
        """Until it has been fast once."""
        if self._warm:
            return
        self.batches.draw("alone", 0)
        once_s = self._run().wall_ns / 1e9
        self._peer.ask(warm(self._job.protocol, once_s), Done, "warm-up")
        self._warm = once_s <= _SLOW_S

    def alone(self, batches: int, purpose: str) -> list[TimedBatch]:
        """So many batches, each on inputs of its own, with outputs taken, as in pairs."""
        self.get_ready()
        seen = []
        for number in range(batches):
            with self._peer.stopped() as still:  # as in pairs, while the other side is timed
                if self._traffic is not None:
                    self._traffic.pass_through()
                self._peer.used_while(still)
            self.batches.draw(purpose, number)
            seen.append(self._run(self.batches.choose()).bare())
        self.batches.let_go()
        return seen

    def _run(self, chosen: Sequence[int] = ()) -> TimedBatch:
        return self.batches.run(self._peer, self.settings, self._job.seed, chosen)


def measure_alone(
    task: Task, reference: Peer, job: Job, device: torch.device, first: Case, clocks: Clocks
) -> Measured:
    """The baseline by itself, through the same code as its half of the pairs."""
    baseline = Baseline(task, reference, job, device, first)
    baseline.get_ready()
    protocol = job.protocol
    deadline = time.monotonic() + job.bench_s
    samples: list[float] = []
    clocks.read()
    while len(samples) < max(protocol.min_pairs, 50):
        (batch,) = baseline.alone(1, f"baseline/{len(samples)}")
        samples.append(batch.reported_ns / baseline.batches.calls / 1e6)
        clocks.read_between()
        if time.monotonic() > deadline:
            break
    clocks.read()
    middle = quantile(samples, 0.5)
    return Measured(
        runtime_ms=sum(samples) / len(samples) if protocol.mean else middle,
        spread=relative_spread(samples),
        repetitions=len(samples) * baseline.batches.calls,
        apart=medians_apart(samples),
    )


def warm(protocol: Protocol, once_s: float) -> Warm:
    """The warm-up of a model whose call takes ``once_s``; slow ones are warm after their trials."""
    if once_s > _SLOW_S:
        return Warm(calls=1, seconds=0.0)
    most = math.ceil(2.0 / max(once_s, 1e-6))
    return Warm(calls=max(1, min(protocol.warmup_calls, most)), seconds=protocol.warmup_s)


def _settings(job: Job, backend: Backend) -> Settings:
    events = backend.events
    if events is None:
        return Settings()
    flush = job.protocol.flush_bytes
    if flush is None:
        flush = 2 * events.cache_bytes()
    kernels = _kernels(events) if flush else b""
    return Settings(flush_bytes=flush, kernels=kernels, cover_us=job.protocol.cover_us)


def _kernels(events: EventClock) -> bytes:
    """Empty where they can't be compiled: no gate decides there, which a label says."""
    try:
        return events.compiled_kernels()
    except NoKernels:
        return b""
