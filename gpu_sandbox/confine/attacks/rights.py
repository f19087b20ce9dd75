"""Attacks on rights: capabilities, other users, the kernel's less visited calls, namespaces."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from gpu_sandbox.confine.attacks.targets import NAMESPACE_FILES, Targets, refused
from gpu_sandbox.confine.policy import Layer, Policy
from gpu_sandbox.confine.syscall_numbers import MACHINE
from gpu_sandbox.confine.syscalls import call, clone, held_capabilities, prctl


def become_root(_: Targets, __: Policy) -> tuple[bool, str]:
    return refused(lambda: os.setresuid(0, 0, 0), "became root")


def capabilities(_: Targets, __: Policy) -> tuple[bool, str]:
    mask = held_capabilities()
    bounded = 0
    for capability in range(64):
        with suppress(OSError):
            bounded |= prctl(23, capability) << capability
    if os.geteuid() != 0 and not mask:  # the bounding set matters to set-uid programs only
        return True, "none held"
    return not mask and not bounded, f"held {mask:#x}, bounding {bounded:#x}"


_FORBIDDEN: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("ptrace", (0, 0, 0, 0)),
    ("unshare", (0,)),
    ("unshare", (0x10000000,)),
    ("mount", (0, 0, 0, 0, 0)),
    ("io_uring_setup", (1, 0)),
    ("keyctl", (0, 0, 0, 0, 0)),
    ("bpf", (0, 0, 0)),
    ("perf_event_open", (0, 0, -1, -1, 0)),
    ("userfaultfd", (0,)),
    ("process_vm_readv", (0, 0, 0, 0, 0, 0)),
    ("pidfd_getfd", (-1, 0, 0)),
    ("setns", (-1, 0)),
    ("personality", (0x0040000,)),
    ("clone3", (0, 0)),
    ("prctl", (62, 0, 0, 0, 0)),
)


def forbidden_calls(_: Targets, __: Policy) -> tuple[bool, str]:
    for name, arguments in _FORBIDDEN:
        try:
            call(name, *arguments)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOSYS):
                continue
            return False, f"{name} was looked at: {error}"
        return False, f"{name} was allowed"
    try:
        pid = clone(0x10000000)
    except OSError as error:
        return error.errno == errno.EPERM, f"clone into a user namespace: {error}"
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return False, "cloned into a user namespace"


def foreign_convention(_: Targets, __: Policy) -> tuple[bool, str]:
    """The same call by another numbering, which a filter by number would let pass."""
    if MACHINE != "x86_64":
        return True, "this machine has no other numbering"
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39))
        os._exit(0)
    word = os.waitpid(pid, 0)[1]
    killed = os.WIFSIGNALED(word) and os.WTERMSIG(word) == signal.SIGSYS
    return killed, "killed" if killed else f"not killed: {word:#x}"


def new_privileges(_: Targets, __: Policy) -> tuple[bool, str]:
    held = prctl(39) == 1
    return held, "no set-uid program gains anything" if held else "set-uid programs work"


def shared_namespace(layer: Layer) -> Callable[[Targets, Policy], tuple[bool, str]]:
    def compare(targets: Targets, _: Policy) -> tuple[bool, str]:
        own = os.readlink(f"/proc/self/ns/{NAMESPACE_FILES[layer]}")
        return own != targets.namespaces[layer], own

    return compare
