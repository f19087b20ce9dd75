"""Descriptors of the worker's own memory for the verifier, opened before there is a candidate."""

from __future__ import annotations

import os
from contextlib import suppress

from gpu_sandbox.confine.syscalls import prctl
from gpu_sandbox.ipc.cpu_call_messages import PAGEMAP

_OWN = "/proc/self/mem"
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_OWNERS = 1


def open_own_memory() -> list[int]:
    """Read-only descriptors: of the memory, and of its page map if there is one. After a change of
    user a process's files in ``/proc`` are root's; it is made dumpable for this moment."""
    before = prctl(_PR_GET_DUMPABLE)
    prctl(_PR_SET_DUMPABLE, _OWNERS)
    found = []
    try:
        found.append(os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC))
        with suppress(OSError):
            found.append(os.open(PAGEMAP, os.O_RDONLY | os.O_CLOEXEC))
        return found
    finally:
        prctl(_PR_SET_DUMPABLE, int(before == _OWNERS))  # there are no other values
