"""Which cores time and which compile: a compiler beside a kernel ruins its timing.

A GPU's launch thread is timed as well, so each device keeps cores of its own; the CPU as a
device keeps most of them. With one core there is nothing to keep apart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from gpu_sandbox.devices import Device, device_named, devices_named

__all__ = ["Cores", "cores_of", "cpu_cache_bytes", "sharing", "split_cores"]

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


def sharing(device: Device, names: tuple[str, ...]) -> list[str]:
    """What to say of a time that was taken where compilers run: nothing, if they have cores of
    their own."""
    timing, compiling = cores_of(device, names)
    shared = set(timing) & set(compiling)
    return ["timed on cores that compile, too: there are too few to keep apart"] if shared else []


def cores_of(device: Device, names: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cores that time ``device``, one of those named, and those that compile for it."""
    available = sorted(os.sched_getaffinity(0))
    if not device.is_cuda:
        cores = split_cores(available, 0)
        return cores.timing[0], cores.compiling
    ours = [name for listed in names for name in devices_named(listed)]
    gpus = [d for d in map(device_named, ours) if d.is_cuda]
    cores = split_cores(available, len(gpus))
    return cores.timing[gpus.index(device)], cores.compiling


@cache
def cpu_cache_bytes() -> int | None:
    """What all caches of all cores hold together; None where Linux does not say."""
    found: dict[tuple[str, str], int] = {}
    for index in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            kind, level, sharing, size = (
                (index / name).read_text().strip()
                for name in ("type", "level", "shared_cpu_list", "size")
            )
            if kind != "Instruction":
                found[level, sharing] = int(size.removesuffix("K")) << 10
        except (OSError, ValueError):
            return None
    return sum(found.values()) or None
