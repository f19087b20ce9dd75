"""What a GPU's events read at least: of nothing at all, and of work that is queued between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["KERNEL_NS", "beyond_kernel_ns", "read_ns", "reading_ns"]

KERNEL_NS = 1100.0
"""Device time of a kernel on one element, by CUPTI on an H200: start to end, as the profiler has it
of any kernel. What two events around it read beyond that is not the kernel's."""

_LOOKS, _LOOKS_NS = 5, 20e6
"""Fewer, when they have taken so long."""
_COVER_CYCLES = 1_000_000
"""So long that what is timed is queued before its turn."""
_device_sleep: Any = torch.cuda._sleep
_seen: dict[torch.device, float] = {}
"""The least of this process's life."""


def reading_ns(device: torch.device) -> float:
    """Where nothing lies between them: 1.2 to 2.9 us, as hosts differ."""
    now = read_ns(device, lambda: None)
    _seen[device] = min(now, _seen.get(device, now))
    return _seen[device]


def beyond_kernel_ns(device: torch.device) -> float:
    """What events read of a call in this process beyond the device time of its kernels."""
    element = torch.zeros(1, device=device)
    return max(read_ns(device, lambda: element.add_(1)) - KERNEL_NS, 0.0)


def read_ns(device: torch.device, work: Callable[[], object]) -> float:
    """Of ``work``, which is queued and not waited for; the least of a few looks."""
    event: Any = torch.cuda.Event
    took: list[float] = []
    for _ in range(_LOOKS):
        torch.cuda.synchronize(device)
        start, end = event(enable_timing=True), event(enable_timing=True)
        _device_sleep(_COVER_CYCLES)
        start.record()
        work()
        end.record()
        end.synchronize()
        took.append(start.elapsed_time(end) * 1e6)
        if sum(took) > _LOOKS_NS:
            break
    return min(took)
