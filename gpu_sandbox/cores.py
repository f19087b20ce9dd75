"""Which cores time and which compile: a compiler beside a kernel ruins its timing.

A GPU's launch thread is timed as well, so each device keeps cores of its own; the CPU as a
device keeps most of them. With one core there is nothing to keep apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Cores", "split_cores"]

_PER_GPU = 2


class Cores(msgspec.Struct, frozen=True):
    """``timing[i]`` belongs to the ``i``-th device. ``apart`` unless they had to be shared."""

    timing: tuple[tuple[int, ...], ...]
    compiling: tuple[int, ...]
    apart: bool


def split_cores(available: Sequence[int], gpus: int) -> Cores:
    """For so many GPUs, or with 0 for the CPU as the one device."""
    cores = tuple(sorted(available))
    if len(cores) < 1 + max(gpus, 1):
        return Cores(tuple(cores for _ in range(max(gpus, 1))), cores, apart=False)
    if gpus == 0:
        compiling = max(1, len(cores) // 4)
        return Cores((cores[compiling:],), cores[:compiling], apart=True)
    each = _PER_GPU if len(cores) >= 4 * gpus else 1
    first = len(cores) - each * gpus
    timing = tuple(cores[first + i * each : first + (i + 1) * each] for i in range(gpus))
    return Cores(timing, cores[:first], apart=True)
