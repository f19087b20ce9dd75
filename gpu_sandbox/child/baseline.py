"""The reference in a worker of its own: warm, released like the candidate, timed alone."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial

import torch

from gpu_sandbox.child.peer import Peer
from gpu_sandbox.child.reference import Case, Task
from gpu_sandbox.child.releases import FEW_CALLS, MANY_CALLS, Batch, Released, Settings
from gpu_sandbox.jobs import Job, Measured
from gpu_sandbox.messages import Done, Warm
from gpu_sandbox.paired import quantile, relative_spread
from gpu_sandbox.protocols import Protocol

__all__ = ["Baseline", "measure_alone", "warm"]

_SLOW_S = 0.5
_LOOKS = 3
_AHEAD_BYTES = 1 << 32
"""Of releases: who has smaller ones may get ready while others have memory of the device."""


class Baseline:
    """Once it is ready, ``releases`` are as long as both sides' are to be, and those behind
    gates have ``gated_calls``."""

    def __init__(
        self, task: Task, reference: Peer, job: Job, device: torch.device, first: Case
    ) -> None:
        self.slow = task.forward_s > _SLOW_S
        self.settings = _settings(job, device)
        self.releases = Batch(task, first, device, calls=1)
        self.gated_calls = 1
        self._peer = reference
        self._job = job
        self._make_batch = partial(Batch, task, first, device)
        self._ready = self.slow

    def work_ahead(self) -> bool:
        """Get ready, unless that takes memory that an earlier worker may still hold. For use
        while others disturb the device; False, because there is no more to do."""
        if self.releases.layout.total_bytes * MANY_CALLS <= _AHEAD_BYTES:
            self.get_ready()
        return False

    def get_ready(self) -> None:
        """Once: warm up, and see how long releases have to be. A slow one is used as it is."""
        if self._ready:
            return
        self._ready = True
        job = self._job
        self.releases.draw("alone", 0)
        once_s = self._release().wall_ns / 1e9
        self._peer.ask(warm(job.protocol, once_s), Done, "warm-up")
        seen = [self._draw_and_call(number) for number in range(1, 1 + _LOOKS)]
        draw_s, once_ns = (min(values) for values in zip(*seen, strict=True))
        few = MANY_CALLS if job.protocol.mean else FEW_CALLS
        calls, self.gated_calls = (
            self.releases.long_enough(once_ns, draw_s, job.bench_s, most)
            for most in (few, MANY_CALLS)
        )
        if calls > 1:
            self.releases = self._make_batch(calls)
            self.releases.draw("alone", 0)
            self._release()

    def _draw_and_call(self, number: int) -> tuple[float, int]:
        """What drawing inputs takes in seconds, and a call in nanoseconds."""
        began = time.perf_counter()
        self.releases.draw("alone", number)
        return time.perf_counter() - began, self._release().claim_ns

    def alone(self, releases: int, purpose: str) -> list[Released]:
        """So many releases, each on inputs of its own, with outputs taken: as in the pairs."""
        self.get_ready()
        seen = []
        for number in range(releases):
            self.releases.draw(purpose, number)
            seen.append(self._release(self.releases.choose()).bare())
        return seen

    def _release(self, chosen: Sequence[int] = ()) -> Released:
        return self.releases.release(self._peer, self.settings, self._job.seed, chosen)


def measure_alone(
    task: Task, reference: Peer, job: Job, device: torch.device, first: Case
) -> Measured:
    """The baseline by itself, through the same code as its half of the pairs."""
    baseline = Baseline(task, reference, job, device, first)
    protocol = job.protocol
    deadline = time.monotonic() + job.bench_s
    samples: list[float] = []
    while len(samples) < max(protocol.min_pairs, 50):
        (released,) = baseline.alone(1, f"baseline/{len(samples)}")
        samples.append(released.claim_ns / baseline.releases.calls / 1e6)
        if time.monotonic() > deadline:
            break
    middle = quantile(samples, 0.5)
    return Measured(
        runtime_ms=sum(samples) / len(samples) if protocol.mean else middle,
        spread=relative_spread(samples),
        repetitions=len(samples) * baseline.releases.calls,
    )


def warm(protocol: Protocol, once_s: float) -> Warm:
    """Slow models are warm after the correctness trials; don't spend minutes again."""
    if once_s > _SLOW_S:
        return Warm(calls=1, seconds=0.0)
    most = math.ceil(2.0 / max(once_s, 1e-6))
    return Warm(calls=max(1, min(protocol.warmup_calls, most)), seconds=protocol.warmup_s)


def _settings(job: Job, device: torch.device) -> Settings:
    if device.type != "cuda":
        return Settings()
    flush = job.protocol.flush_bytes
    if flush is None:
        flush = 2 * int(torch.cuda.get_device_properties(device).L2_cache_size)
    return Settings(flush_bytes=flush, cover_us=job.protocol.cover_us)
