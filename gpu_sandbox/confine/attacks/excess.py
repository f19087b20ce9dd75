"""Attacks on limits: more of something than the policy grants, which is little here."""

from __future__ import annotations

import _thread
import mmap
import os
import signal
import time
from contextlib import suppress

from gpu_sandbox.confine.attacks.targets import Targets, refused
from gpu_sandbox.confine.policy import Policy

_MIB = 1 << 20
_SEEN_S = 5.0  # memory is watched from time to time, and the exact account may be waited for twice


def tight_policy(home: str) -> Policy:
    """Limits small enough to be reached in milliseconds."""
    return Policy(
        home=home,
        memory_bytes=48 * _MIB,
        processes=16,
        file_bytes=_MIB,
        descriptors=64,
        cpu_s=20,
        tmpfs_bytes=4 * _MIB,
    )


def fill_home(_: Targets, policy: Policy) -> tuple[bool, str]:
    def fill() -> None:
        for index in range(policy.tmpfs_bytes // policy.file_bytes + 1):
            with open(os.path.join(policy.home, f"fill{index}"), "wb") as file:
                os.posix_fallocate(file.fileno(), 0, policy.file_bytes)

    held, detail = refused(fill, "filled home beyond its size")
    for name in os.listdir(policy.home):
        if name.startswith("fill"):
            os.unlink(os.path.join(policy.home, name))
    return held, detail


def too_many_processes(_: Targets, policy: Policy) -> tuple[bool, str]:
    """By threads, which count alike and cost less."""
    read, write = os.pipe()
    started = 0
    try:
        while started < 2 * policy.processes:
            _thread.start_new_thread(os.read, (read, 1))
            started += 1
    except RuntimeError:
        return started < policy.processes, f"stopped at {started + 1}"
    finally:
        os.close(write)
        deadline = time.monotonic() + 1.0
        while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:
            time.sleep(0.0005)
        os.close(read)
    return False, f"{started + 1} tasks under a limit of {policy.processes}"


def too_much_memory(_: Targets, policy: Policy) -> tuple[bool, str]:
    pid = os.fork()
    if pid == 0:
        size = 2 * policy.memory_bytes
        with mmap.mmap(-1, size) as block:
            for offset in range(0, size, mmap.PAGESIZE):
                block[offset] = 1
        os._exit(0)
    word = os.waitpid(pid, 0)[1]
    killed = os.WIFSIGNALED(word) and os.WTERMSIG(word) == signal.SIGKILL
    return killed, "killed" if killed else "took twice its memory limit"


def fill_memory(_: Targets, policy: Policy) -> tuple[bool, str]:
    """Beyond the pages that forks share with the zygote, too. Never returns where refused."""
    blocks = []
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * mmap.PAGESIZE
    for _taken in range(0, 2 * policy.memory_bytes + 2 * resident, _MIB):
        blocks.append(b"x" * _MIB)
    time.sleep(_SEEN_S)
    return False, "took more than twice its memory limit, and was let be"


def too_large_a_file(_: Targets, policy: Policy) -> tuple[bool, str]:
    path = os.path.join(policy.home, "large")

    def grow() -> None:
        with open(path, "wb") as file:
            file.truncate(policy.file_bytes + 1)

    held, detail = refused(grow, "made a file larger than the limit")
    with suppress(OSError):
        os.unlink(path)
    return held, detail


def too_many_files(_: Targets, policy: Policy) -> tuple[bool, str]:
    opened: list[int] = []

    def hoard() -> None:
        while len(opened) <= policy.descriptors:
            opened.append(os.dup(0))

    held, detail = refused(hoard, "opened more files than the limit")
    for fd in opened:
        os.close(fd)
    return held, detail
