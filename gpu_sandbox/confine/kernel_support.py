"""Support of this machine and this process for confinement, by looking and by trying.

Plain data that spawning reads and ``engine doctor`` prints. Whether what is there works, only a
survey shows (``survey.py``).
"""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from gpu_sandbox.confine import cgroups, landlock, seccomp_filter
from gpu_sandbox.confine.cgroups import Hierarchy
from gpu_sandbox.confine.identity import Uids, uid_range
from gpu_sandbox.confine.policy import Layer, Tier
from gpu_sandbox.confine.readable_paths import View, base_view


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    view: View
    uids: Uids | None
    landlock_abi: int
    """0: none."""
    hierarchies: tuple[Hierarchy, ...]
    own_process_count: bool
    """RLIMIT_NPROC counts per user namespace (Linux 5.14)."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One attack, tried from inside of a jail."""

    attack: str
    layer: str
    """The only layer that stood against it, with what it needs; ``"all"``: every one."""
    held: bool
    detail: str
    """One line: how it was refused, or what it got."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    layers: tuple[str, ...]
    """What ``spawn`` sets up, and must: each was set up here, attacked, and held."""
    missing: dict[str, str]
    """Every other layer, with the reason and what to do about it, in one line."""
    tier: Tier
    findings: tuple[Finding, ...]
    machine: Machine


def inspect_machine() -> tuple[Machine, dict[str, str]]:
    """The machine, and the layers that it surely has not, with what to do about each."""
    missing: dict[str, str] = {}
    uids, reason = uid_range()
    if uids is None:
        missing[Layer.UID] = reason
    abi = landlock.abi()
    if abi == 0:
        missing[Layer.LANDLOCK] = "not in this kernel; Linux 5.13 with lsm=landlock,… has it"
    if not (seccomp_filter.supported() and _has_seccomp()):
        missing[Layer.SECCOMP] = "this kernel has no seccomp, or no filter for this architecture"
    hierarchies, reason = cgroups.find()
    if {"memory", "pids"} - {c for h in hierarchies for c in h.controllers}:
        missing[Layer.CGROUP] = reason
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


def _has_seccomp() -> bool:
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return any(line.startswith("Seccomp:") for line in file)
    return False
