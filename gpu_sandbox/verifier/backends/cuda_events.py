"""Readings of CUDA events: of queued work, and of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpu_sandbox.cuda.gate_kernels import Kernels
from gpu_sandbox.cuda.nvrtc import compiled
from gpu_sandbox.verifier.backends.backend import EventClock

_READINGS, _MAX_NS = 5, 20e6  # fewer readings when these have taken so long
_COVER_CYCLES = 1_000_000  # so long that what is timed is queued before its turn
_device_sleep: Any = torch.cuda._sleep


class CudaEvents(EventClock):
    kernel_ns = 1100.0  # by CUPTI on an H200: start to end, as the profiler has it of any kernel

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._least_reading_ns: float | None = None
        self._kernels: Kernels | None = None

    def stream(self) -> int:
        return int(torch.cuda.current_stream(self._device).cuda_stream)

    def compiled_kernels(self) -> bytes:
        return compiled(self._device)

    def kernels(self) -> Kernels:
        if self._kernels is None:
            self._kernels = Kernels(self.compiled_kernels())
        return self._kernels

    def cache_bytes(self) -> int:
        return int(torch.cuda.get_device_properties(self._device).L2_cache_size)

    def reading_ns(self) -> float:
        """1.2 to 2.9 us, as hosts differ."""
        now = self.read_ns(lambda: None)
        least = self._least_reading_ns
        self._least_reading_ns = now if least is None else min(now, least)
        return self._least_reading_ns

    def beyond_kernel_ns(self) -> float:
        element = torch.zeros(1, device=self._device)
        return max(self.read_ns(lambda: element.add_(1)) - self.kernel_ns, 0.0)

    def read_ns(self, work: Callable[[], object]) -> float:
        event: Any = torch.cuda.Event
        took: list[float] = []
        for _ in range(_READINGS):
            torch.cuda.synchronize(self._device)
            start, end = event(enable_timing=True), event(enable_timing=True)
            _device_sleep(_COVER_CYCLES)
            start.record()
            work()
            end.record()
            end.synchronize()
            took.append(start.elapsed_time(end) * 1e6)
            if sum(took) > _MAX_NS:
                break
        return min(took)
