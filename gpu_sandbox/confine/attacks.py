"""What a hostile candidate would try first, harmless to the machine if it works.

Invariant: an attack returns whether it was refused, and how; it raises only by mistake, which
counts as not refused. Targets are made by the survey, outside of the ward.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import mmap
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from gpu_sandbox.confine.policy import (
    CGROUP,
    CGROUP_NAMESPACE,
    IPC,
    LANDLOCK,
    MOUNT,
    NET,
    NO_NEW_PRIVS,
    PID,
    RLIMITS,
    SECCOMP,
    UID,
    USER,
    UTS,
    Policy,
)
from gpu_sandbox.confine.syscalls import MACHINE, call, clone, held_capabilities, prctl

__all__ = ["ATTACKS", "NAMESPACE_FILES", "Attack", "Result", "Targets", "attempt", "tight_policy"]

NAMESPACE_FILES = {
    USER: "user",
    MOUNT: "mnt",
    NET: "net",
    IPC: "ipc",
    PID: "pid",
    UTS: "uts",
    CGROUP_NAMESPACE: "cgroup",
}

_MIB = 1 << 20


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


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """Things outside of the ward that a candidate must not reach."""

    canary: str
    """A file that everybody may read, in a directory that everybody may write to."""
    secret: str
    """A file of the zygote's user alone."""
    unix_path: str
    unix_name: bytes
    """Of a listening socket in the abstract namespace."""
    port: int
    """A listening TCP port of 127.0.0.1."""
    victim: int
    """A process of the zygote's user."""
    shm_key: int
    package: str
    namespaces: Mapping[str, str]
    """Layer to the zygote's own, as ``/proc/self/ns`` names it."""


class Result(msgspec.Struct, frozen=True):
    attack: str
    held: bool
    detail: str


class Attack(msgspec.Struct, frozen=True):
    name: str
    run: Callable[[Targets, Policy], tuple[bool, str]]
    layers: tuple[str, ...]
    """Each of these must refuse it alone."""
    landlock_abi: int = 1
    """The first version of Landlock that refuses it."""
    per_user: bool = False
    """Refused by resource limits as well, if the ward's user is nobody else's."""


def attempt(attack: Attack, targets: Targets, policy: Policy) -> Result:
    try:
        held, detail = attack.run(targets, policy)
    except Exception as error:
        held, detail = False, f"the attack itself failed: {error!r}"
    return Result(attack.name, held, detail)


def _refused(action: Callable[[], object], got: str) -> tuple[bool, str]:
    try:
        action()
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error))
        return True, f"refused: {name}"
    return False, got


def _read_canary(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _refused(lambda: _open(targets.canary), "read a foreign file")


def _read_secret(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _refused(lambda: _open(targets.secret), "read a private file")


def _write_in(directory: str) -> tuple[bool, str]:
    path = os.path.join(directory, f".attack-{os.getpid()}")

    def create() -> None:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.unlink(path)

    return _refused(create, f"created a file in {directory}")


def _write_outside(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _write_in(os.path.dirname(targets.canary))


def _write_package(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _write_in(targets.package)


def _fill_home(_: Targets, policy: Policy) -> tuple[bool, str]:
    def fill() -> None:
        for index in range(policy.tmpfs_bytes // policy.file_bytes + 1):
            with open(os.path.join(policy.home, f"fill{index}"), "wb") as file:
                os.posix_fallocate(file.fileno(), 0, policy.file_bytes)

    held, detail = _refused(fill, "filled home beyond its size")
    for name in os.listdir(policy.home):
        if name.startswith("fill"):
            os.unlink(os.path.join(policy.home, name))
    return held, detail


def _connect(family: int, address: object) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        client.connect(address)  # type: ignore[arg-type]


def _unix_socket(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _refused(lambda: _connect(socket.AF_UNIX, targets.unix_path), "connected to a server")


def _abstract_socket(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _refused(
        lambda: _connect(socket.AF_UNIX, b"\0" + targets.unix_name), "connected to a server"
    )


def _tcp(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _refused(
        lambda: _connect(socket.AF_INET, ("127.0.0.1", targets.port)), "connected to the host"
    )


def _shared_memory(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _refused(lambda: call("shmget", targets.shm_key, 0, 0), "found foreign shared memory")


def _signal(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _refused(lambda: os.kill(targets.victim, 0), "may signal a foreign process")


def _trace(targets: Targets, _: Policy) -> tuple[bool, str]:
    def attach() -> None:
        call("ptrace", 16, targets.victim, 0, 0)
        os.waitpid(targets.victim, 0)
        call("ptrace", 17, targets.victim, 0, 0)

    return _refused(attach, "attached to a foreign process")


def _read_warden(_: Targets, __: Policy) -> tuple[bool, str]:
    detail = ""
    for name in ("environ", "mem", "maps"):
        path = f"/proc/{os.getppid() or 1}/{name}"
        held, detail = _refused(partial(_open, path), f"opened {path}")
        if not held:
            return False, detail
    return True, detail


def _open(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def _become_root(_: Targets, __: Policy) -> tuple[bool, str]:
    return _refused(lambda: os.setresuid(0, 0, 0), "became root")


def _capabilities(_: Targets, __: Policy) -> tuple[bool, str]:
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
)


def _forbidden_calls(_: Targets, __: Policy) -> tuple[bool, str]:
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


def _foreign_convention(_: Targets, __: Policy) -> tuple[bool, str]:
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


def _too_many_processes(_: Targets, policy: Policy) -> tuple[bool, str]:
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


def _too_much_memory(_: Targets, policy: Policy) -> tuple[bool, str]:
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


def _too_large_a_file(_: Targets, policy: Policy) -> tuple[bool, str]:
    path = os.path.join(policy.home, "large")

    def grow() -> None:
        with open(path, "wb") as file:
            file.truncate(policy.file_bytes + 1)

    held, detail = _refused(grow, "made a file larger than the limit")
    with suppress(OSError):
        os.unlink(path)
    return held, detail


def _too_many_files(_: Targets, policy: Policy) -> tuple[bool, str]:
    opened: list[int] = []

    def hoard() -> None:
        while len(opened) <= policy.descriptors:
            opened.append(os.dup(0))

    held, detail = _refused(hoard, "opened more files than the limit")
    for fd in opened:
        os.close(fd)
    return held, detail


def _new_privileges(_: Targets, __: Policy) -> tuple[bool, str]:
    held = prctl(39) == 1
    return held, "no set-uid program gains anything" if held else "set-uid programs work"


def _shared_namespace(layer: str) -> Callable[[Targets, Policy], tuple[bool, str]]:
    def compare(targets: Targets, _: Policy) -> tuple[bool, str]:
        own = os.readlink(f"/proc/self/ns/{NAMESPACE_FILES[layer]}")
        return own != targets.namespaces[layer], own

    return compare


ATTACKS = (
    Attack("read a file outside", _read_canary, (MOUNT, LANDLOCK)),
    Attack("read a private file", _read_secret, (UID, MOUNT, LANDLOCK)),
    Attack("write outside of home", _write_outside, (MOUNT, LANDLOCK)),
    Attack("write into this package", _write_package, (UID, MOUNT, LANDLOCK)),
    Attack("fill the disk", _fill_home, (MOUNT,)),
    Attack("connect to a socket file", _unix_socket, (MOUNT, SECCOMP)),
    Attack("connect to an abstract socket", _abstract_socket, (NET, LANDLOCK), 6),
    Attack("connect to a TCP port", _tcp, (NET, LANDLOCK, SECCOMP), 4),
    Attack("find shared memory", _shared_memory, (IPC, SECCOMP)),
    Attack("signal a process", _signal, (PID, UID, LANDLOCK), 6),
    Attack("trace a process", _trace, (PID, UID, LANDLOCK, SECCOMP)),
    Attack("read the warden", _read_warden, ()),
    Attack("become root", _become_root, (UID,)),
    Attack("hold capabilities", _capabilities, (UID, USER)),
    Attack("make forbidden calls", _forbidden_calls, (SECCOMP,)),
    Attack("call by another convention", _foreign_convention, (SECCOMP,)),
    Attack("start too many processes", _too_many_processes, (CGROUP, RLIMITS), per_user=True),
    Attack("take too much memory", _too_much_memory, (CGROUP,)),
    Attack("write too large a file", _too_large_a_file, (RLIMITS,)),
    Attack("open too many files", _too_many_files, (RLIMITS,)),
    Attack("gain privileges by exec", _new_privileges, (NO_NEW_PRIVS,)),
    *(
        Attack(f"share {layer.removeprefix('namespaces:')}", _shared_namespace(layer), (layer,))
        for layer in NAMESPACE_FILES
    ),
)
"""``read the warden`` has no layer of its own: nothing may get there under any of them."""
