"""State of the CPU's caches when a batch begins.

A core's private caches are emptied before each batch, as the L2 is on a GPU: otherwise the
baseline, measured alone first, would run slower in every pair, where another process ran on its
core. The shared cache is too large for that; what lies there is what went through it since.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch

_CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_USUAL_BYTES = 2 << 20
_MAX_BYTES = 16 << 20
_USES = 7  # times a call's bytes that pass between two batches in pairs, by measurement
_MAX_TRAFFIC_BYTES = 64 << 20  # more leaves nothing of a call in usual caches


class Eviction:
    """Empties the private caches of the ``threads`` cores that this process computes on."""

    def __init__(self, threads: int) -> None:
        each = private_cache_bytes(os.sched_getaffinity(0))
        self._block = torch.zeros(2 * each * threads, dtype=torch.uint8)

    def evict(self) -> None:
        self._block.add_(1)  # a mere fill may pass the caches by


class SharedCacheTraffic:
    """In place of the other side's and the checks' memory use, where one side runs alone."""

    def __init__(self, moved_bytes: int) -> None:
        """``moved_bytes``: of a call's inputs and outputs."""
        self.total_bytes = min(_USES * moved_bytes, _MAX_TRAFFIC_BYTES)
        self._block = torch.zeros(self.total_bytes, dtype=torch.uint8)

    def pass_through(self) -> None:
        """Between two batches."""
        self._block.add_(1)


def private_cache_bytes(cores: Iterable[int], cpus: Path = _CPUS) -> int:
    """The largest second-level cache of ``cores``; 2 MB where Linux does not report it."""
    found = [size for core in cores for size in _second_levels(cpus / f"cpu{core}" / "cache")]
    return min(max(found, default=_USUAL_BYTES), _MAX_BYTES)


def _second_levels(caches: Path) -> Iterable[int]:
    for index in caches.glob("index*"):
        try:
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
            if level == "2" and size:
                yield int(size.rstrip("KM")) * _UNITS.get(size[-1], 1)
        except (OSError, ValueError):
            continue
