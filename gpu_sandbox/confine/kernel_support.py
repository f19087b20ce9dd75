"""What this process may use here, by looking; whether it works, only trying tells."""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from gpu_sandbox.confine import cgroups, landlock, seccomp_filter
from gpu_sandbox.confine.cgroups import Hierarchy
from gpu_sandbox.confine.identity import Uids, uid_range
from gpu_sandbox.confine.policy import CGROUP, LANDLOCK, SECCOMP, UID
from gpu_sandbox.confine.readable_paths import View, base_view

__all__ = ["Machine", "look"]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    view: View
    uids: Uids | None
    landlock_abi: int
    """0: none."""
    hierarchies: tuple[Hierarchy, ...]
    own_process_count: bool
    """RLIMIT_NPROC counts per user namespace (Linux 5.14)."""


def look() -> tuple[Machine, dict[str, str]]:
    """The machine, and the layers that it surely has not, with what to do about each."""
    missing: dict[str, str] = {}
    uids, reason = uid_range()
    if uids is None:
        missing[UID] = reason
    abi = landlock.abi()
    if abi == 0:
        missing[LANDLOCK] = "not in this kernel; Linux 5.13 with lsm=landlock,… has it"
    if not seccomp_filter.supported() or _status("Seccomp") is None:
        missing[SECCOMP] = "this kernel has no seccomp, or no filter for this architecture"
    hierarchies, reason = cgroups.find()
    if {"memory", "pids"} - {c for h in hierarchies for c in h.controllers}:
        missing[CGROUP] = reason
        hierarchies = ()
    machine = Machine(
        view=base_view(),
        uids=uids,
        landlock_abi=abi,
        hierarchies=hierarchies,
        own_process_count=_kernel() >= (5, 14),
    )
    return machine, missing


def _kernel() -> tuple[int, int]:
    words = os.uname().release.split(".")
    try:
        return int(words[0]), int(words[1].split("-")[0])
    except (ValueError, IndexError):
        return (0, 0)


def _status(name: str) -> str | None:
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
    return None
