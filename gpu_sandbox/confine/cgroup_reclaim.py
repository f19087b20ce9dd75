"""Kernel memory of a control group whose last process is gone: the kernel is asked to free it.

Names that were looked up in vain stay in memory, charged to the group: a loop over absent names
leaves gigabytes, which go to the group above when the jail's is removed, and slow down look-ups.
To free them takes two seconds a gigabyte, in which no signal is heard, so a child of the zygote
does it, and removes the group when it is done. (If it is killed before, the kernel goes on to the
end, and the next survey finds the empty group.)

Pages of files are charged to their first reader likewise; the next jail wants a compiler's. So
nothing is freed where the kernel's own memory is little.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress

from gpu_sandbox.confine import processes
from gpu_sandbox.confine.cgroups import Group
from gpu_sandbox.confine.syscalls import close_all_but

_LITTLE_BYTES = 32 << 20  # an ordinary jail has a megabyte or two

_children: set[int] = set()


def laden(group: Group) -> bool:
    """Whether the kernel holds much for an empty group."""
    if "memory" not in group.hierarchy.controllers:
        return False
    if group.hierarchy.version == 1:
        return int(group.read("memory.kmem.usage_in_bytes") or 0) > _LITTLE_BYTES
    return group.read_key("memory.stat", "slab_reclaimable") > _LITTLE_BYTES


def free(group: Group, spared: Collection[int]) -> None:
    """Begin to, on none of the ``spared`` cores if there are others, and when they are idle."""
    pid = os.fork()
    if pid:
        _children.add(pid)
        return
    try:
        os.setsid()
        close_all_but({group.fd, group.base_fd})
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with suppress(OSError):
            os.sched_setaffinity(0, os.sched_getaffinity(0) - set(spared))
        _have_it_freed(group)
        group.remove()
    finally:
        os._exit(0)


def _have_it_freed(group: Group) -> None:
    with suppress(OSError):
        if group.hierarchy.version == 1:
            group.write("memory.force_empty", "0")
        else:  # from Linux 5.19 on; if less could be freed it says so
            group.write("memory.reclaim", group.read("memory.current").strip())


def at_work() -> frozenset[int]:
    """Children of this process that are still freeing; takes those that are done."""
    _children.difference_update([pid for pid in _children if processes.reap(pid, 0.0)])
    return frozenset(_children)


def finished_within(seconds: float) -> bool:
    """Whether all of them are done by then."""
    deadline = time.monotonic() + seconds
    while at_work():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
