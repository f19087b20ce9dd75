"""What a device reaches at its best, found by a small probe: the roof over a candidate.

Bytes a second: the better of copying and of summing up an array that no cache holds.
Operations a second: a matrix product in each dtype, float32 without TF32 and, on a GPU, with
it. The best of several times each, because whatever else the machine does only takes away. On
the CPU with the threads that candidates get. Whether the machine was busy is told beside it: by
how the bests of two interleaved halves differ, and by what others used meanwhile.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

import torch

from events.observations import Ceilings
from gpu_sandbox.api.timestamps import utc_now
from gpu_sandbox.contention.thresholds import bests_apart, busy_by_itself
from gpu_sandbox.contention.watch import Watch
from gpu_sandbox.cuda.nvml import nvml_of
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.verifier_messages import Probed
from gpu_sandbox.runtime.module_loader import settle
from gpu_sandbox.runtime.precision import settle_precision

__all__ = ["main"]

_CPU_TIMES, _GPU_TIMES = 10, 20  # at least; half of them in each half
_GPU_S = 0.03
"""That a GPU is at each of them: its clocks rise first, and ten products take two milliseconds."""
_CPU_BYTES, _CPU_SIZE, _CPU_DTYPES = 256 << 20, 1024, (torch.float32,)
_GPU_BYTES, _GPU_SIZE = 1 << 30, 4096
_GPU_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def main(*, control: int, device: str, cores: list[int], threads: int) -> None:
    os.sched_setaffinity(0, cores)
    settle(threads)
    with socket.socket(fileno=control) as sock:
        channel: Channel[Probed] = Channel(sock, Probed)
        try:
            channel.send(_probed(torch.device(device), cores))
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            channel.send(Probed(missing=reason[:300]))


def _probed(device: torch.device, cores: list[int]) -> Probed:
    watch = Watch(nvml_of(device), cores, lambda: [os.getpid()])
    watch.begin(at_rest=True)
    best = _Best(device)
    ceilings = _probe(device, best)
    watch.end(at_rest=True)
    return Probed(ceilings=ceilings, busy=[*busy_by_itself(best.apart), *watch.reasons()])


def _probe(device: torch.device, best: _Best) -> Ceilings:
    on_gpu = device.type == "cuda"
    size = _GPU_BYTES if on_gpu else _CPU_BYTES
    side = _GPU_SIZE if on_gpu else _CPU_SIZE
    dtypes = _GPU_DTYPES if on_gpu else _CPU_DTYPES
    flops_per_s = {
        str(dtype).removeprefix("torch."): _flops_per_s(side, dtype, device, best)
        for dtype in dtypes
    }
    if on_gpu:
        settle_precision("tf32")
        flops_per_s["tf32"] = _flops_per_s(side, torch.float32, device, best)
    now = utc_now()
    return Ceilings(
        bytes_per_s=_bytes_per_s(size, device, best),
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
    """The best of several times. ``apart``: by how much halves of them differed at most."""

    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self._clock = _gpu_s if on_gpu else _cpu_s
        self._times, self._least_s = (_GPU_TIMES, _GPU_S) if on_gpu else (_CPU_TIMES, 0.0)
        self.apart = 0.0

    def seconds(self, work: Callable[[], Any]) -> float:
        work()
        samples: list[float] = []
        while len(samples) < self._times or sum(samples) < self._least_s:
            samples.append(self._clock(work))
        self.apart = max(self.apart, bests_apart(samples))
        return min(samples)


def _cpu_s(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _gpu_s(work: Callable[[], Any]) -> float:
    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3
