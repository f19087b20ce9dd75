"""What writing takes at least: less is not believed of a call's outputs.

Measured here, in memory that is there already, by filling it, which reads nothing. A busy machine
only makes that slower, so the fastest that was ever seen counts.
"""

from __future__ import annotations

import time

import torch

from gpu_sandbox.verifier.timing.event_overhead import read_ns, reading_ns

__all__ = ["least_ns"]

_FEWEST_BYTES, _MOST_BYTES = 1 << 20, 1 << 26
"""On the CPU less is written in no time beside the call that does so. More, which is beyond what
caches hold, takes as much longer as it is more."""
_MOST_ON_GPU = 1 << 24
"""What less takes is for the most part that something is launched, and read by events. Of
longer calls gates tell more."""
_FILLS = 5

_seen: dict[tuple[torch.device, int, int], float] = {}
"""By device, bytes and threads, of this process's life."""


def least_ns(output_bytes: int, device: torch.device) -> float:
    """On the CPU by as many threads as torch has here; on a GPU as events read it."""
    if device.type == "cuda":
        return _on_gpu(output_bytes, device)
    size = min(output_bytes, _MOST_BYTES)
    if size < _FEWEST_BYTES:
        return 0.0
    buffer = torch.zeros(size, dtype=torch.uint8)
    for _ in range(_FILLS):
        began = time.perf_counter_ns()
        buffer.fill_(1)
        least = _least(device, size, time.perf_counter_ns() - began)
    return least * output_bytes / size


def _on_gpu(output_bytes: int, device: torch.device) -> float:
    """By a kernel or by the driver."""
    if not output_bytes:
        return reading_ns(device)
    size = min(output_bytes, _MOST_ON_GPU)
    buffer = torch.empty(size, dtype=torch.uint8, device=device)
    took = min(read_ns(device, lambda: buffer.fill_(1)), read_ns(device, buffer.zero_))
    return _least(device, size, took)


def _least(device: torch.device, size: int, took_ns: float) -> float:
    key = (device, size, torch.get_num_threads())
    _seen[key] = min(_seen.get(key, took_ns), took_ns)
    return _seen[key]
