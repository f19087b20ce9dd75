"""The system call filter, as BPF that the kernel runs before every call of a jail.

Invariant: what is not refused by name is allowed, except calls newer than the newest that
this module knows, which don't exist for a jail. Refusals look like those of an old or
cautious kernel (EPERM, ENOSYS), so that libraries take the path they have for those; only a
foreign calling convention, which has no honest use, kills.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct

from gpu_sandbox.confine.syscall_numbers import MACHINE, NUMBERS
from gpu_sandbox.confine.syscall_policy import (
    BY_KIND,
    BY_PID,
    MODE_ARGUMENT,
    NAMING,
    OWNERS,
    REFUSED,
    SOCKET_PEERS,
    TIMES,
    WATCHES,
    XATTRS,
)
from gpu_sandbox.confine.syscalls import call

Step = tuple[int, int, int, int]
"""One BPF instruction: code, jumps if true and if false, operand."""

_NEWEST = 462  # mseal, Linux 6.10, before setxattrat; both machines' tables are one above 424

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(MACHINE)
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FILE_IOCTLS = (
    0x40086602,  # FS_IOC_SETFLAGS
    0x40046602,  # that of 32 bits
    0x401C5820,  # FS_IOC_FSSETXATTR
    0x40087602,  # FS_IOC_SETVERSION: 32 bits that stay
    0x40047602,
    0x40086604,  # EXT4_IOC_SETVERSION
    0x40806685,  # FS_IOC_ENABLE_VERITY: never to be written again
    0x800C6613,  # FS_IOC_SET_ENCRYPTION_POLICY
    0x4008941A,  # BTRFS_IOC_SUBVOL_SETFLAGS, and those that make one
    0x5000940E,
    0x50009418,
    0x50009401,
    0x50009417,
    0x40047211,  # FAT_IOCTL_SET_ATTRIBUTES
)
"""They change a file that may only be read, or make one: Landlock knows ioctls of devices alone."""
_F_SETSIG, _F_SETLEASE, _F_NOTIFY = 10, 1024, 1026
_PR_SCHED_CORE = 62
_ITIMER_REAL = 0
_RLIMIT_CORE = 4
_MADV_COLLAPSE = 25
_FADV_DONTNEED = 4
_RWF_NOWAIT = 8
_AF_UNIX = 1
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_KIND = 1, 5, 0xF
_MSG_OOB = 1
_FLAGS_ARGUMENT = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
_PERSONALITY_QUERY = 0xFFFFFFFF

_LOAD, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 6
_NUMBER, _ARCHITECTURE = 0, 4  # offsets
_ALLOW: Step = (_RETURN, 0, 0, 0x7FFF0000)
_KILL: Step = (_RETURN, 0, 0, 0x80000000)
_ERRNO = 0x00050000
_REFUSE: Step = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
_NO_FAMILY: Step = (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT)
_PRETEND: Step = (_RETURN, 0, 0, _ERRNO)
"""Reports success and does nothing."""

_PR_SET_SECCOMP_FILTER = 1
_TSYNC, _SPEC_ALLOW = 1 << 0, 1 << 2


def supported() -> bool:
    return _ARCH is not None


def program(
    *, own_files: bool, own_pids: bool, own_user: bool, pinned: bool, driver: bool = False
) -> bytes:
    """The filter. ``own_files``: the mount namespace holds; ``own_pids``: that of processes, or an
    own user; ``pinned``: cores are fixed; ``driver``: CUDA's driver starts in there.

    Without ``own_pids`` a jail changes its own limits and priority only, by the name that means
    itself (0). Without ``own_files`` it has no attributes, owners and watches of files, and no
    sockets but connected pairs, since any server's socket file could be connected to; for a
    ``driver`` one more kind, until ``give_up_driver_sockets``. Without an own user, either, it sets
    no times, and of modes only that of a private program, which linkers need; as root not even
    that. The rest reports success, so that copying goes on.
    """
    others_files = not own_files and not own_user
    conditional = _conditional(own_files, driver)
    if not own_pids:
        conditional += [(n, _if(0, _EQUAL, 0, _ALLOW, _REFUSE)) for n in BY_PID]
        conditional += [(name, _own_priority(kind)) for name, kind in BY_KIND.items()]
    conditional.append(("prlimit64", _own_limits(own_pids)))
    if others_files:
        conditional += [(n, _private_mode(i)) for n, i in MODE_ARGUMENT.items() if n in NUMBERS]
    steps = [*_head(), (_GREATER, 0, 1, _NEWEST), _errno(errno.ENOSYS)]
    for name, body in conditional:
        steps += [(_EQUAL, 0, len(body), NUMBERS[name]), *body]
    steps += _answer(("clone3",), _errno(errno.ENOSYS))
    steps += _answer(REFUSED, _REFUSE)
    if not own_files:
        steps += _answer((*SOCKET_PEERS, *OWNERS), _REFUSE)
    if not (own_files and own_user):
        steps += _answer(WATCHES, _REFUSE)  # a user has but 128 of them
    if not (own_files or driver):
        steps += _answer(NAMING, _REFUSE)
    if pinned:
        steps += _answer(("sched_setaffinity",), _REFUSE)
    if others_files:
        steps += _answer(TIMES, _PRETEND)
    if not own_files:  # as on a file system without any, so that copying goes on
        steps += _answer(XATTRS, _errno(errno.ENOTSUP))
    return _packed(steps)


def _head() -> list[Step]:
    """Kills what calls by another convention; then the call's number is loaded."""
    assert _ARCH is not None
    steps = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, _ARCH), _KILL, (_LOAD, 0, 0, _NUMBER)]
    if MACHINE == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), _KILL]
    return steps


def _packed(steps: list[Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, _ALLOW))


def _conditional(own_files: bool, driver: bool) -> list[tuple[str, list[Step]]]:
    """Calls that depend on an argument; each body ends in a return.

    Low words only: the kernel takes these arguments as 32 bits (or ignores what is above).
    """
    sockets = [_NO_FAMILY]
    if own_files:
        sockets = _if(0, _EQUAL, _AF_UNIX, _ALLOW, _NO_FAMILY)
    elif driver:
        sockets = _unix_socket(_if_any(1, (_SOCK_SEQPACKET,), _ALLOW, _NO_FAMILY, _SOCK_KIND))
    # a datagram one, which "raw" is, too, can still send elsewhere
    connected = _if_any(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _ALLOW, _REFUSE, _SOCK_KIND)
    return [
        ("ioctl", _ioctls(own_files)),
        # a signal while stopped, and leases and notices of a file that others open
        ("fcntl", _if_any(1, (_F_SETSIG, _F_SETLEASE, _F_NOTIFY), _REFUSE)),
        ("clone", _if(0, _ANY_BIT, _NEW_NAMESPACES, _REFUSE)),
        ("socket", sockets),
        ("socketpair", _unix_socket([_ALLOW] if own_files else connected)),
        # a byte that wakes its reader and can't be read, of a record of holes in the kernel
        *((name, _if(i, _ANY_BIT, _MSG_OOB, _REFUSE)) for name, i in _FLAGS_ARGUMENT.items()),
        ("personality", _if_any(0, (0, _PERSONALITY_QUERY), _ALLOW, _REFUSE)),
        # by the clock: the others count what a process uses, none while it is stopped
        ("setitimer", _if(0, _EQUAL, _ITIMER_REAL, _REFUSE)),
        ("setrlimit", _if(0, _EQUAL, _RLIMIT_CORE, _PRETEND)),
        ("move_pages", _if(0, _EQUAL, 0, _ALLOW, _REFUSE)),
        # huge pages under memory that is shared with the verifier, which the baseline has not.
        # As Linux before 6.1 says.
        ("madvise", _if(2, _EQUAL, _MADV_COLLAPSE, _errno(errno.EINVAL))),
        # shared files out of memory, and which of them are in it: notes for the next candidate
        ("fadvise64", _if(3, _EQUAL, _FADV_DONTNEED, _PRETEND)),
        ("preadv2", _if(5, _ANY_BIT, _RWF_NOWAIT, _errno(errno.ENOTSUP))),
        # a cookie keeps other processes off the other half of its core, which is idle then
        ("prctl", _if(0, _EQUAL, _PR_SCHED_CORE, _REFUSE)),
    ]


def _unix_socket(body: list[Step]) -> list[Step]:
    return [_argument(0), (_EQUAL, 1, 0, _AF_UNIX), _NO_FAMILY, *body]


def _ioctls(own_files: bool) -> list[Step]:
    refused = [_TIOCSTI, _TIOCLINUX, *(() if own_files else _FILE_IOCTLS)]
    steps = [step for number in refused for step in ((_EQUAL, 0, 1, number), _REFUSE)]
    return [_argument(1), *steps, _ALLOW]


def _own_limits(own_pids: bool) -> list[Step]:
    """No other process's without ``own_pids``. That of core dumps stays: with 0 instead of 1 the
    host's helper is started for them (``apply_layers.py``)."""
    itself: list[Step] = [] if own_pids else [_argument(0), (_EQUAL, 1, 0, 0), _REFUSE]
    new = 2
    return [
        *itself,
        _argument(1),
        (_EQUAL, 1, 0, _RLIMIT_CORE),
        _ALLOW,
        _argument(new),
        (_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, 16 + 8 * new + 4),  # the upper half of its address
        (_EQUAL, 0, 1, 0),
        _ALLOW,
        _PRETEND,
    ]


def _own_priority(kind: int) -> list[Step]:
    itself = _if(1, _EQUAL, 0, _ALLOW, _REFUSE)
    return [_argument(0), (_EQUAL, 1, 0, kind), _REFUSE, *itself]


def _private_mode(argument: int) -> list[Step]:
    """Of modes 0700 alone, and nothing for root. The kernel looks at no bits above."""
    if os.geteuid() == 0:
        return [_PRETEND]
    return [_argument(argument), (_AND, 0, 0, 0o7777), (_EQUAL, 0, 1, 0o700), _ALLOW, _PRETEND]


def _if(argument: int, test: int, value: int, then: Step, otherwise: Step = _ALLOW) -> list[Step]:
    return [_argument(argument), (test, 0, 1, value), then, otherwise]


def _if_any(
    argument: int, values: tuple[int, ...], then: Step, otherwise: Step = _ALLOW, mask: int = 0
) -> list[Step]:
    """``then`` if the argument, or its bits in ``mask``, are one of ``values``."""
    masked: list[Step] = [(_AND, 0, 0, mask)] if mask else []
    *others, last = values
    first = [(_EQUAL, len(others) - i, 0, value) for i, value in enumerate(others)]
    return [_argument(argument), *masked, *first, (_EQUAL, 0, 1, last), then, otherwise]


def _answer(names: tuple[str, ...], answer: Step) -> list[Step]:
    """``answer`` to these calls, as far as this machine has them."""
    known = (NUMBERS[name] for name in names if name in NUMBERS)
    return [step for number in known for step in ((_EQUAL, 0, 1, number), answer)]


def _argument(index: int) -> Step:
    return (_LOAD, 0, 0, 16 + 8 * index)


def _errno(number: int) -> Step:
    return (_RETURN, 0, 0, _ERRNO | number)


def apply(code: bytes, *, all_threads: bool = False) -> None:
    """Filter this thread and all that it starts, for good. Needs no_new_privs.

    ``all_threads``: of this process; raises ``OSError`` if one has a filter of its own.
    Speculation stays as it is: its mitigation would slow down what is being timed.
    """
    block = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(
        struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(block)), 16
    )
    flags = _TSYNC if all_threads else 0
    try:
        odd = call("seccomp", _PR_SET_SECCOMP_FILTER, flags | _SPEC_ALLOW, header)
    except OSError as error:
        if error.errno != errno.EINVAL:  # before Linux 4.17
            raise
        odd = call("seccomp", _PR_SET_SECCOMP_FILTER, flags, header)
    if odd:
        raise OSError(errno.EBUSY, f"thread {odd} has a system call filter of its own")


def give_up_driver_sockets() -> None:
    """Once the driver has what it needs, and before there is a candidate: no thread of this
    process makes or names a socket any more. A name that is taken would keep the driver of the
    next process from coming up. Nothing happens where other sockets can be made, too."""
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
    except OSError:
        steps = [*_head(), *_answer(("socket",), _NO_FAMILY), *_answer(NAMING, _REFUSE)]
        apply(_packed(steps), all_threads=True)
