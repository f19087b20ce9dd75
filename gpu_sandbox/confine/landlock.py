"""Landlock rules for files, TCP, abstract sockets and signals.

Invariant: every right that the kernel knows is handled, so what no rule grants is refused. Holds
without any privilege and without namespaces.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Sequence
from typing import Literal

import msgspec

from gpu_sandbox.confine.syscalls import call

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE, _MAKE_PLAIN = 3 << 4, 0b101111 << 7
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_READ = _EXECUTE | _READ_FILE | _READ_DIR
# MAKE_PLAIN: directories, files, sockets, fifos, symlinks; never char or block devices
_GRANTS: dict[str, int] = {
    "read": _READ,
    "own": _READ | _WRITE_FILE | _REMOVE | _MAKE_PLAIN | _REFER | _TRUNCATE,
    "proc": _READ | _WRITE_FILE | _TRUNCATE,
    "device": _READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEV,
}
_NET = 0b11
_SCOPES = 0b11
_PATH_BENEATH = 1
_QUIET = 1
_QUERY_VERSION = 1


class Rule(msgspec.Struct, frozen=True):
    path: str
    grant: Literal["read", "own", "proc", "device"]


def abi() -> int:
    """The kernel's Landlock version, 0 where there is none."""
    try:
        return call("landlock_create_ruleset", None, 0, _QUERY_VERSION)
    except OSError:
        return 0


def _handled(version: int) -> int:
    known = (1 << 13) - 1  # the rights of version 1
    known |= _REFER if version >= 2 else 0
    known |= _TRUNCATE if version >= 3 else 0
    return known | (_IOCTL_DEV if version >= 5 else 0)


def restrict(rules: Sequence[Rule], version: int) -> None:
    """Confine this process to ``rules``. Needs no_new_privs. Absent paths grant nothing."""
    handled = _handled(version)
    words = [handled]
    if version >= 4:
        words.append(_NET)
    if version >= 6:
        words.append(_SCOPES)
    attributes = struct.pack(f"={len(words)}Q", *words)
    size = len(attributes)
    ruleset = call(
        "landlock_create_ruleset", ctypes.create_string_buffer(attributes, size), size, 0
    )
    try:
        for rule in rules:
            _grant(ruleset, rule, handled)
        # From version 7 on refusals are logged: a jail must not flood the kernel's log.
        call("landlock_restrict_self", ruleset, _QUIET if version >= 7 else 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, rule: Rule, handled: int) -> None:
    try:
        path = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rights = _GRANTS[rule.grant] & handled
        if not stat.S_ISDIR(os.fstat(path).st_mode):
            rights &= _FILE_RIGHTS
        attributes = struct.pack("=Qi", rights, path)
        block = ctypes.create_string_buffer(attributes, len(attributes))
        call("landlock_add_rule", ruleset, _PATH_BENEATH, block, 0)
    finally:
        os.close(path)
