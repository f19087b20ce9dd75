"""Run a command as another user, on a machine whose interpreter only root can reach.

``python -m tests.gpu_sandbox.users [--no-namespaces] COMMAND…``: as nobody, if we are root;
with ``--no-namespaces`` in what a container's profile leaves. Exits with 77 where that can't be.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
import tempfile
from pathlib import Path

from gpu_sandbox.confine import seccomp_filter as seccomp
from gpu_sandbox.confine import syscall_numbers as numbers
from gpu_sandbox.confine import syscalls

__all__ = ["NOBODY", "UNABLE", "become_nobody", "blocked", "forbid_namespaces"]

NOBODY = 65534
UNABLE = 77
_BIND, _REC, _SLAVE, _DETACH = 4096, 16384, 1 << 19, 2


def become_nobody(*needed: str) -> None:
    """In a mount namespace of our own, where the interpreter and ``needed`` can be reached by
    others; nothing outside of it changes. Raises ``OSError`` where there can be none."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "", _REC | _SLAVE)
    wanted = {sys.prefix, sys.base_prefix, *needed}
    for closed in {b for path in wanted if (b := blocked(path))}:
        _open(closed, [path for path in wanted if path.startswith(f"{closed}/")])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def _open(closed: str, inside: list[str]) -> None:
    stages = []
    for path in inside:
        stage = tempfile.mkdtemp(dir="/dev/shm")
        syscalls.mount(path, stage, "", _BIND | _REC)
        stages.append(stage)
    syscalls.mount("tmpfs", closed, "tmpfs", 0, "mode=755")
    for path, stage in zip(inside, stages, strict=True):
        os.makedirs(path)
        syscalls.mount(stage, path, "", _BIND | _REC)
        syscalls.unmount(stage, _DETACH)
        os.rmdir(stage)


def blocked(path: str) -> str | None:
    """The topmost directory above ``path`` that others can't enter."""
    for parent in reversed(Path(path).parents):
        if not parent.stat().st_mode & stat.S_IXOTH:
            return str(parent)
    return None


def forbid_namespaces() -> None:
    """As a container's profile: no new namespaces, and the rest as ever."""
    number = numbers.NUMBERS
    refuse = (0x06, 0, 0, 0x00050000 | 1)
    absent = (0x06, 0, 0, 0x00050000 | 38)
    steps = [
        (0x20, 0, 0, 0),
        (0x15, 0, 1, number["unshare"]),
        refuse,
        (0x15, 0, 1, number["clone3"]),
        absent,
        (0x15, 0, 3, number["clone"]),
        (0x20, 0, 0, 16),
        (0x45, 0, 1, 0x7E020000),
        refuse,
        (0x06, 0, 0, 0x7FFF0000),
    ]
    syscalls.prctl(38, 1)
    seccomp.apply(b"".join(struct.pack("=HBBI", *step) for step in steps))


def main(words: list[str]) -> None:
    namespaces = words[0] != "--no-namespaces"
    if os.geteuid() == 0:
        try:
            become_nobody(str(Path(__file__).parents[2]))
        except OSError as error:
            print(f"needs a mount namespace: {error}")
            sys.exit(UNABLE)
    if not namespaces:
        forbid_namespaces()
        words = words[1:]
    os.execvp(words[0], words)


if __name__ == "__main__":
    main(sys.argv[1:])
