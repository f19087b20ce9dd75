"""What the kernel still has to free when the last process of a jail is gone.

Most is freed by the processes as they end: their own pages, files in memory, and what was mounted
for them. Not so what only threads of the kernel find out to be nobody's, such as a memory file
that lies in a socket which only its own message holds: gigabytes of it are a second of a core's
and the memory's time, beside whatever is timed then. A jail can't be kept from all of that, so who
times next waits until no more memory is being freed.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import anyio

_LOOK_S = 0.05
_STILL = 5
"""Rounds in a row: it does not begin at once."""
_STEP = 8 << 20
"""Freed between two looks: a fraction of what a thread that does nothing else frees."""
_KINDS = ("AnonPages", "Shmem", "PageTables", "SUnreclaim", "SReclaimable", "KernelStack")
"""Of ``/proc/meminfo``. What is free says less: a virtual machine gives it back to its host."""


async def settled(
    within_s: float = 3.0, held: Callable[[], int] | None = None, look_s: float = _LOOK_S
) -> bool:
    """Wait until what is ``held``, by default by all of the machine, no longer falls. False if it
    did for all of ``within_s``, as others' memory may: then nobody waits any longer."""
    held = held or _held_bytes
    for sock in socket.socketpair():  # only when one is closed are those looked for that nobody has
        sock.close()
    deadline = time.monotonic() + within_s
    before, still = held(), 0
    while still < _STILL:
        if time.monotonic() > deadline:
            return False
        await anyio.sleep(look_s)
        now = held()
        still = still + 1 if before - now < _STEP else 0
        before = now
    return True


def _held_bytes() -> int:
    """By processes and by the kernel for them. Raises ``OSError`` where there is no ``/proc``."""
    with open("/proc/meminfo", encoding="ascii") as file:
        rows = (line.split() for line in file)
        return 1024 * sum(int(row[1]) for row in rows if row[0].rstrip(":") in _KINDS)
