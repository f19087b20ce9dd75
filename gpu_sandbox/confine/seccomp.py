"""The system call filter, as BPF that the kernel runs before every call of a ward.

Invariant: what is not refused by name is allowed, except calls newer than the newest that
this module knows, which don't exist for a ward. Refusals look like those of an old or
cautious kernel (EPERM, ENOSYS), so that libraries take the path they have for those; only a
foreign calling convention, which has no honest use, kills.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from gpu_sandbox.confine.syscalls import MACHINE, NUMBERS, call

__all__ = ["apply", "program", "supported"]

_REFUSED = (
    # other processes' memory, descriptors and scheduling
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "kcmp",
    "pidfd_getfd",
    "migrate_pages",
    # kernel interfaces with a record of holes
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "memfd_secret",
    "modify_ldt",
    "lookup_dcookie",
    "fanotify_init",
    "fanotify_mark",
    "open_by_handle_at",
    "add_key",
    "request_key",
    "keyctl",
    # the file system tree and namespaces
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "setns",
    "unshare",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "statmount",
    "listmount",
    # the machine
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "reboot",
    "swapon",
    "swapoff",
    "quotactl",
    "quotactl_fd",
    "acct",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "iopl",
    "ioperm",
    "syslog",
    "vhangup",
    "nfsservctl",
    "uselib",
    "sysfs",
    "ustat",
    "_sysctl",
)
_SHARED_IPC = ("shmget", "msgget", "semget", "mq_open")
_NEWEST = 462  # mseal, Linux 6.10; the tables of both machines are one above 424

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(MACHINE)
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX = 1
_SOCK_DGRAM = 2
_PERSONALITY_QUERY = 0xFFFFFFFF

_LOAD, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _AND, _RETURN = (
    0x20,
    0x15,
    0x25,
    0x35,
    0x45,
    0x54,
    0x06,
)
_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_PR_SET_SECCOMP_FILTER = 1
_SPEC_ALLOW = 1 << 2

Step = tuple[int, int, int, int]


def supported() -> bool:
    return _ARCH is not None


def program(*, own_ipc: bool, own_files: bool, pinned: bool) -> bytes:
    """The filter. ``own_ipc``, ``own_files``: the namespace holds; ``pinned``: cores are fixed.

    Without an IPC namespace SysV and POSIX queues would reach, and outlive, everyone.
    Without a mount namespace any server's socket file could be connected to, which Landlock
    does not prevent: then there are no sockets but connected pairs.
    """
    assert _ARCH is not None
    steps: list[Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCH),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if MACHINE == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    steps += [(_GREATER, 0, 1, _NEWEST), _refuse(errno.ENOSYS)]
    for name, body in _conditional(own_files):
        steps += [(_EQUAL, 0, len(body), NUMBERS[name]), *body]
    steps += [(_EQUAL, 0, 1, NUMBERS["clone3"]), _refuse(errno.ENOSYS)]
    refused = [*_REFUSED]
    refused += [] if own_ipc else _SHARED_IPC
    refused += ["sched_setaffinity"] if pinned else []
    for name in refused:
        if name in NUMBERS:
            steps += [(_EQUAL, 0, 1, NUMBERS[name]), _refuse(errno.EPERM)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _conditional(own_files: bool) -> list[tuple[str, list[Step]]]:
    """Calls that depend on an argument; each body ends in a return.

    Low words only: the kernel takes these arguments as 32 bits (or ignores what is above).
    """
    allow = (_RETURN, 0, 0, _ALLOW)
    no = _refuse(errno.EPERM)
    no_family = _refuse(errno.EAFNOSUPPORT)
    unix_only: list[Step] = [_argument(0), (_EQUAL, 0, 1, _AF_UNIX), allow, no_family]
    pairs_only: list[Step] = [
        _argument(1),
        (_AND, 0, 0, 0xF),
        (_EQUAL, 0, 1, _SOCK_DGRAM),  # a datagram pair can still be sent elsewhere
        no,
        allow,
    ]
    return [
        (
            "ioctl",
            [_argument(1), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), no, allow],
        ),
        ("clone", [_argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), no, allow]),
        ("socket", unix_only if own_files else [no_family]),
        ("socketpair", [allow] if own_files else pairs_only),
        (
            "personality",
            [_argument(0), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, _PERSONALITY_QUERY), allow, no],
        ),
        ("move_pages", [_argument(0), (_EQUAL, 0, 1, 0), allow, no]),
    ]


def _argument(index: int) -> Step:
    return (_LOAD, 0, 0, 16 + 8 * index)


def _refuse(number: int) -> Step:
    return (_RETURN, 0, 0, _ERRNO | number)


def apply(code: bytes) -> None:
    """Filter this process and all that it starts, for good. Needs no_new_privs.

    Speculation stays as it is: the mitigation that a filter used to switch on protects a
    process from its own code, and would slow down what is being timed.
    """
    block = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(
        struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(block)), 16
    )
    try:
        call("seccomp", _PR_SET_SECCOMP_FILTER, _SPEC_ALLOW, header)
    except OSError as error:
        if error.errno != errno.EINVAL:  # before Linux 4.17
            raise
        call("seccomp", _PR_SET_SECCOMP_FILTER, 0, header)
