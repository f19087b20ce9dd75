"""What the kernel still has to free when the last process of a jail is gone.

Threads of the kernel free some memory later, such as a memory file in a socket that only its own
message holds: a second of a core and the memory for some gigabytes. So the next timed job waits
until no more memory is being freed.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import anyio

_POLL_S = 0.05
_STABLE_POLLS = 5  # in a row: freeing does not begin at once
_MAX_FREED_BYTES = 8 << 20  # between two polls; a thread that frees frees several times more
_KINDS = ("AnonPages", "Shmem", "PageTables", "SUnreclaim", "SReclaimable", "KernelStack")
"""Of ``/proc/meminfo``. What is free says less: a virtual machine gives it back to its host."""


async def settled(
    within_s: float = 3.0, held: Callable[[], int] | None = None, poll_s: float = _POLL_S
) -> bool:
    """Wait until the bytes that ``held`` counts, by default those in use on the machine, fall no
    more. False if they did for all of ``within_s``, as others' memory may."""
    held = held or _held_bytes
    for sock in socket.socketpair():  # closing one makes the kernel look for unreferenced ones
        sock.close()
    deadline = time.monotonic() + within_s
    before, stable = held(), 0
    while stable < _STABLE_POLLS:
        if time.monotonic() > deadline:
            return False
        await anyio.sleep(poll_s)
        now = held()
        stable = stable + 1 if before - now < _MAX_FREED_BYTES else 0
        before = now
    return True


def _held_bytes() -> int:
    """By processes and by the kernel for them. Raises ``OSError`` where there is no ``/proc``."""
    with open("/proc/meminfo", encoding="ascii") as file:
        rows = (line.split() for line in file)
        return 1024 * sum(int(row[1]) for row in rows if row[0].rstrip(":") in _KINDS)
