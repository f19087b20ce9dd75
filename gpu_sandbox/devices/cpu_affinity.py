"""Which cores time and which compile: a compiler beside a kernel ruins its timing.

Each GPU keeps cores for its launch thread, the CPU as a device most of them. Threads of one
physical core stay together where there are enough cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gpu_sandbox.api.device import Device
from gpu_sandbox.backends.known import backend_of, device_named, devices_named

_PER_GPU = 2


class Cores(msgspec.Struct, frozen=True):
    """``timing[i]`` belongs to the ``i``-th device. ``apart`` unless they had to be shared."""

    timing: tuple[tuple[int, ...], ...]
    compiling: tuple[int, ...]
    apart: bool


def _siblings(core: int) -> frozenset[int]:
    """Threads of the same physical core; the one itself where Linux does not say."""
    listed = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        spans = [span.split("-") for span in listed.read_text().strip().split(",")]
        return frozenset(n for span in spans for n in range(int(span[0]), int(span[-1]) + 1))
    except (OSError, ValueError):
        return frozenset({core})


def split_cores(
    available: Sequence[int], gpus: int, siblings: Callable[[int], frozenset[int]] = _siblings
) -> Cores:
    """Cores for so many GPUs; 0: for the CPU as the one device."""
    cores, devices = tuple(sorted(available)), max(gpus, 1)
    if len(cores) < 1 + devices:
        return Cores(tuple(cores for _ in range(devices)), cores, apart=False)
    together = {siblings(core) & set(cores) | {core} for core in cores}
    physical = [tuple(sorted(threads)) for threads in sorted(together, key=min)]
    by_thread = [(core,) for core in cores]
    whole = physical if len(physical) > devices else by_thread
    if gpus == 0:
        compiling = max(1, len(whole) // 4)
        return Cores((_all(whole[compiling:]),), _all(whole[:compiling]), apart=True)
    threads = max(map(len, whole))
    each = -(-_PER_GPU // threads) if len(cores) >= 2 * _PER_GPU * gpus else 1
    first = len(whole) - each * gpus
    timing = tuple(_all(whole[first + i * each : first + (i + 1) * each]) for i in range(gpus))
    return Cores(timing, _all(whole[:first]), apart=True)


def _all(physical: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(core for threads in physical for core in threads)


def sharing(device: Device, names: tuple[str, ...]) -> list[str]:
    """A note on timings where compilers have no cores of their own."""
    timing, compiling = cores_of(device, names)
    shared = set(timing) & set(compiling)
    return ["timed on cores that compile, too: there are too few to keep apart"] if shared else []


def cores_of(device: Device, names: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cores that time ``device``, one of those named, and those that compile for it."""
    available = sorted(os.sched_getaffinity(0))
    if backend_of(device).computes_on_cores:
        cores = split_cores(available, 0)
        return cores.timing[0], cores.compiling
    ours = [name for listed in names for name in devices_named(listed)]
    gpus = [d for d in map(device_named, ours) if not backend_of(d).computes_on_cores]
    cores = split_cores(available, len(gpus))
    return cores.timing[gpus.index(device)], cores.compiling
