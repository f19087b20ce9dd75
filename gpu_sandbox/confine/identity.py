"""Namespaces, user and capabilities of a jail.

Invariant: the candidate runs without a single capability, now and after any ``exec``; as root's
child under a user id of its own, as an ordinary user's child under that user's id in a user
namespace that maps nothing else.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable

import msgspec

from gpu_sandbox.confine.policy import Layer, LayerFailed, setting_up
from gpu_sandbox.confine.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    drop_bounding_set,
    held_capabilities,
    keep_only,
    lacks,
    prctl,
    unshare,
)

SYS_ADMIN = 21
_SETGID, _SETUID, _KILL, _DAC_OVERRIDE, _SETPCAP, _SYS_PTRACE = 6, 7, 5, 1, 8, 19
_PR_SET_DUMPABLE = 4
_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL = 47, 4


class Uids(msgspec.Struct, frozen=True):
    """User (and group) ids that no account uses."""

    first: int
    span: int


_PREFERRED = Uids(2_000_000, 1_000_000)
_SMALL_SPAN = 8192
_FIRST, _OVERFLOW = 16384, 65534  # below are accounts; above, in a small range, "nobody"

_count = itertools.count(int.from_bytes(os.urandom(3), "big"))


def next_uid(uids: Uids) -> int:
    """Differs from the ``span - 1`` before it; engines side by side start apart."""
    return uids.first + next(_count) % uids.span


def uid_range() -> tuple[Uids | None, str]:
    """Ids for jails, or why there are none. In a container only some may be mapped."""
    if os.geteuid() != 0:
        return None, "not started as root; candidates run under your own user id"
    if lacks(_SETUID) or lacks(_SETGID):
        return None, "root without CAP_SETUID and CAP_SETGID; grant them to the container"
    users, groups = _mapped("uid"), _mapped("gid")
    small = [Uids(min(block.stop, _OVERFLOW) - _SMALL_SPAN, _SMALL_SPAN) for block in users]
    for uids in (_PREFERRED, *small):
        ends = uids.first, uids.first + uids.span - 1
        mapped = [any(ends[0] in r and ends[1] in r for r in ranges) for ranges in (users, groups)]
        if uids.first >= _FIRST and all(mapped):
            return uids, ""
    return None, "this user namespace maps too few user ids; map a range of 65536"


def _mapped(kind: str) -> list[range]:
    try:
        with open(f"/proc/self/{kind}_map", encoding="ascii") as file:
            rows = [[int(word) for word in line.split()] for line in file]
    except OSError:
        return []
    return [range(first, first + count) for first, _, count in rows]


def map_user(pid: int, extra: int | None) -> None:
    """Map the caller's own ids, and ``extra``, into ``pid``'s user namespace, from outside."""
    uid, gid = os.geteuid(), os.getegid()
    more = "" if extra is None else f"{extra} {extra} 1\n"
    if extra is None:
        _write(pid, "setgroups", "deny")
    _write(pid, "gid_map", f"{gid} {gid} 1\n{more}")
    _write(pid, "uid_map", f"{uid} {uid} 1\n{more}")


def _write(pid: int, name: str, text: str) -> None:
    try:
        with open(f"/proc/{pid}/{name}", "wb", buffering=0) as file:
            file.write(text.encode())
    except OSError as error:
        raise LayerFailed(Layer.USER, f"writing {name}: {error.strerror}") from error


def enter_namespaces(layers: Iterable[str]) -> None:
    """One by one, so that a refusal can be named."""
    wanted = set(layers)
    for layer, flag in (
        (Layer.MOUNT, CLONE_NEWNS),
        (Layer.NET, CLONE_NEWNET),
        (Layer.IPC, CLONE_NEWIPC),
        (Layer.UTS, CLONE_NEWUTS),
    ):
        if layer in wanted:
            with setting_up(layer):
                unshare(flag)


def weaken_jail_init(*, watches: bool) -> None:
    """Leave the jail init the capabilities to end a jail of another uid, and to count its memory
    if it ``watches`` that, and keep others from looking into it."""
    prctl(_PR_SET_DUMPABLE, 0)
    kept = 1 << _KILL | 1 << _SETUID | 1 << _SETGID | 1 << _DAC_OVERRIDE
    keep_only(kept | (1 << _SYS_PTRACE if watches else 0))


def become(uid: int | None) -> None:
    """Take the user id, for good, and lose every capability. ``None`` keeps the id."""
    if not lacks(_SETPCAP):
        drop_bounding_set()
    if uid is not None:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        except OSError as error:
            raise LayerFailed(Layer.UID, f"taking user id {uid}: {error.strerror}") from error
        for path in (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)):
            if not os.access(path, os.R_OK | os.X_OK):
                raise LayerFailed(
                    Layer.UID,
                    f"other users can't read {path}: install Python where they can, "
                    "or allow mount namespaces",
                )
    prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    keep_only(0)
    if held_capabilities():
        raise LayerFailed(Layer.UID, "capabilities were kept")
    # Set again by the kernel on exec, when the memory is the new program's own.
    prctl(_PR_SET_DUMPABLE, 0)
