"""What writing takes at least: less is not believed of a call's outputs.

On the CPU measured here, in memory that is there already, by filling it, which reads nothing. A
busy machine only makes that slower, so the fastest that was ever seen counts.
"""

from __future__ import annotations

import time

import torch

__all__ = ["BYTES_WRITTEN_PER_NS", "least_ns"]

BYTES_WRITTEN_PER_NS = 6000.0
"""Of large GPUs, at most."""

_FEWEST_BYTES, _MOST_BYTES = 1 << 20, 1 << 26
"""Less is written in no time beside the call that does so. More, which is beyond what caches
hold, takes as much longer as it is more."""
_FILLS = 5

_seen: dict[tuple[int, int], float] = {}
"""By bytes and threads, of this process's life."""


def least_ns(output_bytes: int) -> float:
    """By as many threads as torch has here."""
    size = min(output_bytes, _MOST_BYTES)
    if size < _FEWEST_BYTES:
        return 0.0
    key = (size, torch.get_num_threads())
    buffer = torch.zeros(size, dtype=torch.uint8)
    for _ in range(_FILLS):
        began = time.perf_counter_ns()
        buffer.fill_(1)
        _seen[key] = min(_seen.get(key, float("inf")), time.perf_counter_ns() - began)
    return _seen[key] * output_bytes / size
