"""Processor time of the timing cores: all of it, and that of the processes that measure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path

from gpu_sandbox.confine import processes
from gpu_sandbox.contention.thresholds import CoreTime

_STAT = Path("/proc/stat")
_USED = 8
"""Fields of a core's line: user, nice, system, idle, iowait, irq, softirq, steal."""
_IDLE = (3, 4)


class CoreWatch:
    """Between the first and the last sample. ``ours`` gives the processes that measure; their
    descendants count, too. The kernel counts all use of a core, other containers' as well."""

    def __init__(self, cores: Collection[int], ours: Callable[[], Collection[int]]) -> None:
        self._cores = frozenset(cores)
        self._ours = ours
        self._began: tuple[float, int] | None = None
        self._ended: tuple[float, int] | None = None
        self._before: dict[int, int] = {}
        self._latest: dict[int, int] = {}  # ticks by process; of ended ones, the last

    def sample(self) -> None:
        """Takes some milliseconds, outside of timed regions."""
        try:
            used = used_ticks(_STAT.read_text(), self._cores)
            own = processes.ticks_of(self._ours())
        except OSError:
            return
        if used is None:
            return
        now = time.monotonic(), used
        if self._began is None:
            self._began, self._before = now, own
        self._ended = now
        self._latest |= own

    def time(self) -> CoreTime | None:
        """Between the samples; None where the kernel reports none."""
        if self._began is None or self._ended is None:
            return None
        (began_s, before), (ended_s, after) = self._began, self._ended
        own = sum(ticks - self._before.get(pid, 0) for pid, ticks in self._latest.items())
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        return CoreTime(
            cores=len(self._cores),
            elapsed_s=ended_s - began_s,
            used_s=(after - before) * tick_s,
            own_s=own * tick_s,
        )


def used_ticks(stat: str, cores: Collection[int]) -> int | None:
    """Ticks in which these cores were not idle, by ``/proc/stat``; None where it lacks one of them
    or counts nothing, as in some sandboxes. Pure."""
    found, total = dict[int, int](), 0
    for line in stat.splitlines():
        name, *fields = line.split()
        number = name.removeprefix("cpu")
        if name == number or not number.isdigit() or int(number) not in cores:
            continue
        ticks = [int(field) for field in fields[:_USED]]
        total += sum(ticks)
        found[int(number)] = sum(ticks) - sum(ticks[i] for i in _IDLE if i < len(ticks))
    return sum(found.values()) if total and len(found) == len(set(cores)) else None
