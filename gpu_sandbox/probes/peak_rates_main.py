"""Entry point of the probe of peak rates: the bounds of what a candidate can reach on a device.

Bytes a second: the better of copying and summing an array that no cache holds. Operations a second:
a matrix product in each dtype, float32 without TF32 and, where there is such, with it. The best of
several times each, on the CPU with the threads that candidates get. Reports whether the machine was
busy: by how the bests of two interleaved halves differ, and by what others used meanwhile.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import torch

from events.observations import Ceilings
from gpu_sandbox.api.timestamps import utc_now
from gpu_sandbox.contention.thresholds import bests_apart, busy_by_itself
from gpu_sandbox.contention.watch import Watch
from gpu_sandbox.ipc.child_messages import Probed
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.probes.backends.backend import Backend
from gpu_sandbox.probes.backends.lookup import backend_of
from gpu_sandbox.runtime.module_loader import settle
from gpu_sandbox.runtime.precision import settle_precision


def main(*, control: int, device: str, cores: list[int], threads: int) -> None:
    os.sched_setaffinity(0, cores)
    settle(threads)
    with socket.socket(fileno=control) as sock:
        channel: Channel[Probed] = Channel(sock, Probed)
        try:
            channel.send(_probed(backend_of(torch.device(device)), cores))
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            channel.send(Probed(missing=reason[:300]))


def _probed(backend: Backend, cores: list[int]) -> Probed:
    watch = Watch(backend.driver_account(), cores, lambda: [os.getpid()])
    watch.begin(at_rest=True)
    best = _Best(backend)
    ceilings = _probe(backend, best)
    watch.end(at_rest=True)
    return Probed(ceilings=ceilings, busy=[*busy_by_itself(best.apart), *watch.reasons()])


def _probe(backend: Backend, best: _Best) -> Ceilings:
    device, side = backend.device, backend.side
    flops_per_s = {
        str(dtype).removeprefix("torch."): _flops_per_s(side, dtype, device, best)
        for dtype in backend.dtypes
    }
    if backend.has_tf32:
        settle_precision("tf32")
        flops_per_s["tf32"] = _flops_per_s(side, torch.float32, device, best)
    now = utc_now()
    return Ceilings(
        bytes_per_s=_bytes_per_s(backend.copied_bytes, device, best),
        flops_per_s=flops_per_s,
        measured_on=now[:10],
        measured_at=now,
    )


def _bytes_per_s(size: int, device: torch.device, best: _Best) -> float:
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    copied = 2 * size / best.seconds(lambda: target.copy_(source))
    return max(copied, size / best.seconds(source.sum))


def _flops_per_s(side: int, dtype: torch.dtype, device: torch.device, best: _Best) -> float:
    a, b = (torch.rand(side, side, device=device).to(dtype) for _ in range(2))
    return float(2 * side**3 / best.seconds(lambda: a @ b))


class _Best:
    """Best times. ``apart``: by how much two halves of them differed at most."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.apart = 0.0

    def seconds(self, work: Callable[[], Any]) -> float:
        work()
        samples: list[float] = []
        backend = self._backend
        while len(samples) < backend.times or sum(samples) < backend.least_s:
            samples.append(backend.seconds(work))
        self.apart = max(self.apart, bests_apart(samples))
        return min(samples)
