"""On the CPU, what lies in the caches when a release begins.

Those that a core has for itself are emptied before each release. A call of microseconds takes
half as long again where another process ran on its core just before, because the interpreter's
state has left the cache with it. Without this the baseline, which is measured alone before a
candidate is there, would run slower in every pair, and the candidate be charged with it. It is
what the flush of the L2 is on a GPU.

The last level, which cores share, is too large for that. What lies there depends on what went
through it since: in pairs the other side's release, and the checks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch

__all__ = ["Eviction", "SharedCacheTraffic", "private_cache_bytes"]

_CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_USUAL_BYTES = 2 << 20
_MOST_BYTES = 16 << 20
_USES = 7
"""Without any, calls of 80 us on 1.5 MB read 1.1 to 1.5 times as long in pairs as alone, of 140 us
on 2 MB 1.0 to 1.25; with 6 to 8 it was 0.9 to 1.1, by which they differ from time to time, too."""
_MOST_COMPANY_BYTES = 64 << 20
"""More leaves nothing of a call in caches of the usual size; it would not last there anyway."""


class Eviction:
    """Of what the caches of ``threads`` cores hold: each reads and writes twice its size."""

    def __init__(self, threads: int) -> None:
        each = private_cache_bytes(os.sched_getaffinity(0))
        self._block = torch.zeros(2 * each * threads, dtype=torch.uint8)

    def evict(self) -> None:
        """Of the cores that this process computes on."""
        self._block.add_(1)  # a mere fill may pass the caches by


class SharedCacheTraffic:
    """For releases of one side alone: what passes through the shared cache between two of them
    where there is another side. In memory of its own, as much as that and the checks use."""

    def __init__(self, moved_bytes: int) -> None:
        """``moved_bytes``: of a call's inputs and outputs."""
        self.total_bytes = min(_USES * moved_bytes, _MOST_COMPANY_BYTES)
        self._block = torch.zeros(self.total_bytes, dtype=torch.uint8)

    def keep(self) -> None:
        """Once, between two releases."""
        self._block.add_(1)


def private_cache_bytes(cores: Iterable[int], cpus: Path = _CPUS) -> int:
    """The second level of one core, the largest of ``cores``; where Linux does not tell it,
    2 MB."""
    told = [size for core in cores for size in _second_levels(cpus / f"cpu{core}" / "cache")]
    return min(max(told, default=_USUAL_BYTES), _MOST_BYTES)


def _second_levels(caches: Path) -> Iterable[int]:
    for index in caches.glob("index*"):
        try:
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
            if level == "2" and size:
                yield int(size.rstrip("KM")) * _UNITS.get(size[-1], 1)
        except (OSError, ValueError):
            continue
