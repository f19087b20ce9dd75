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
    BEING_NAMED,
    BY_KIND,
    BY_PID,
    DATING,
    MEETING,
    MODE_OF,
    NOTES,
    OWNING,
    REFUSED,
    WATCHING,
)
from gpu_sandbox.confine.syscalls import call

__all__ = ["apply", "give_up_driver_sockets", "program", "supported"]

_NEWEST = 462  # mseal, Linux 6.10, before setxattrat; both machines' tables are one above 424

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(MACHINE)
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_OF_FILES = (
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
"""Device requests that change a file which may only be read, or make one: Landlock knows of those
to devices alone."""
_F_SETSIG, _F_SETLEASE, _F_NOTIFY = 10, 1024, 1026
_PR_SCHED_CORE = 62
_ITIMER_REAL = 0
_RLIMIT_CORE = 4
_MADV_COLLAPSE = 25
_FADV_DONTNEED = 4
_RWF_NOWAIT = 8
_AF_UNIX = 1
_SOCK_STREAM = 1
_SOCK_SEQPACKET = 5
_SOCK_KIND = 0xF
_MSG_OOB = 1
_FLAGS_OF = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
"""With the argument that they are."""
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

_PRETEND = (_RETURN, 0, 0, _ERRNO)
"""Says that it is done, and does nothing."""

_PR_SET_SECCOMP_FILTER = 1
_TSYNC, _SPEC_ALLOW = 1 << 0, 1 << 2

Step = tuple[int, int, int, int]


def supported() -> bool:
    return _ARCH is not None


def program(
    *, own_files: bool, own_pids: bool, own_user: bool, pinned: bool, driver: bool = False
) -> bytes:
    """The filter. ``own_files``: the mount namespace holds; ``own_pids``: that of processes, or an
    own user; ``pinned``: cores are fixed.

    Without processes or a user of its own a jail is the equal of the next one's, and of the engine:
    it changes its own limits and priority only, by the name that means itself (0).
    Without a mount namespace there are files of others, for some of which Landlock has no right:
    attributes that a candidate could leave notes in for the next one, owners, and being told of
    what is done to a file. And any server's socket file could be connected to, which it
    does not prevent: then there are no sockets but connected pairs. ``driver``: and of the kind
    that CUDA's driver is said to need, until ``give_up_driver_sockets``. It has one for each
    process, by an abstract name, where its other processes could ask for a descriptor. Nobody
    connects or answers there.

    Without a user of its own, either, the files of whoever runs it are its to change: it opens none
    of them to others, and takes none from their owner. Of modes it sets only that of a private
    program, which linkers need, and as root, whose files are everybody's, not even that; of times
    none. The rest is said to be done and is not, so that who copies goes on.
    """
    steps = _head()
    steps += [(_GREATER, 0, 1, _NEWEST), _refuse(errno.ENOSYS)]
    own_only = [] if own_pids else [(name, _own_only(name)) for name in (*BY_PID, *BY_KIND)]
    own_only.append(("prlimit64", _limits(own_pids)))
    others_files = not own_files and not own_user
    private = [(n, _private_only(i)) for n, i in MODE_OF.items() if others_files and n in NUMBERS]
    for name, body in [*_conditional(own_files, driver), *own_only, *private]:
        steps += [(_EQUAL, 0, len(body), NUMBERS[name]), *body]
    steps += [(_EQUAL, 0, 1, NUMBERS["clone3"]), _refuse(errno.ENOSYS)]
    refused = [*REFUSED]
    refused += [] if own_files else (*MEETING, *OWNING)
    refused += [] if own_files and own_user else WATCHING  # a user has but 128 of them
    refused += [] if own_files or driver else BEING_NAMED
    refused += ["sched_setaffinity"] if pinned else []
    for name in refused:
        if name in NUMBERS:
            steps += [(_EQUAL, 0, 1, NUMBERS[name]), _refuse(errno.EPERM)]
    for name in DATING if others_files else ():
        if name in NUMBERS:
            steps += [(_EQUAL, 0, 1, NUMBERS[name]), _PRETEND]
    for name in () if own_files else NOTES:  # as where a file system has none: who copies goes on
        steps += [(_EQUAL, 0, 1, NUMBERS[name]), _refuse(errno.ENOTSUP)]
    return _packed(steps)


def _head() -> list[Step]:
    """Kills what calls by another convention; then the call's number is loaded."""
    assert _ARCH is not None
    steps: list[Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCH),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if MACHINE == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    return steps


def _packed(steps: list[Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, (_RETURN, 0, 0, _ALLOW)))


def _conditional(own_files: bool, driver: bool) -> list[tuple[str, list[Step]]]:
    """Calls that depend on an argument; each body ends in a return.

    Low words only: the kernel takes these arguments as 32 bits (or ignores what is above).
    """
    allow = (_RETURN, 0, 0, _ALLOW)
    no = _refuse(errno.EPERM)
    no_family = _refuse(errno.EAFNOSUPPORT)
    unix_only: list[Step] = [_argument(0), (_EQUAL, 0, 1, _AF_UNIX), allow, no_family]
    kind: list[Step] = [_argument(1), (_AND, 0, 0, _SOCK_KIND)]
    drivers_only: list[Step] = [
        _argument(0),
        (_EQUAL, 1, 0, _AF_UNIX),
        no_family,
        *kind,
        (_EQUAL, 0, 1, _SOCK_SEQPACKET),  # which can't be sent to unless it is connected
        allow,
        no_family,
    ]
    connected: list[Step] = [  # a datagram one, which "raw" is, too, can still send elsewhere
        *kind,
        (_EQUAL, 1, 0, _SOCK_STREAM),
        (_EQUAL, 0, 1, _SOCK_SEQPACKET),
        allow,
        no,
    ]
    unnoticed: list[Step] = [  # or who opens a file waits for its holder, and is heard of
        _argument(1),
        (_EQUAL, 2, 0, _F_SETSIG),  # see ``timer_create``
        (_EQUAL, 1, 0, _F_SETLEASE),
        (_EQUAL, 0, 1, _F_NOTIFY),
        no,
    ]
    paired = [allow] if own_files else connected
    sockets = unix_only if own_files else drivers_only if driver else [no_family]
    return [
        ("ioctl", _ioctls(own_files)),
        ("fcntl", [*unnoticed, allow]),
        ("clone", [_argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), no, allow]),
        ("socket", sockets),
        ("socketpair", [_argument(0), (_EQUAL, 1, 0, _AF_UNIX), no_family, *paired]),
        # a byte that wakes its reader and can't be read, of a record of holes in the kernel
        *((n, [_argument(i), (_ANY_BIT, 0, 1, _MSG_OOB), no, allow]) for n, i in _FLAGS_OF.items()),
        (
            "personality",
            [_argument(0), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, _PERSONALITY_QUERY), allow, no],
        ),
        # by the clock: the others count what a process uses, none while it is stopped
        ("setitimer", [_argument(0), (_EQUAL, 0, 1, _ITIMER_REAL), no, allow]),
        ("setrlimit", [_argument(0), (_EQUAL, 0, 1, _RLIMIT_CORE), _PRETEND, allow]),
        ("move_pages", [_argument(0), (_EQUAL, 0, 1, 0), allow, no]),
        *_of_pages(),
        # whose cookie keeps strangers off the other half of its core, and makes that idle
        ("prctl", [_argument(0), (_EQUAL, 0, 1, _PR_SCHED_CORE), no, allow]),
    ]


def _of_pages() -> list[tuple[str, list[Step]]]:
    """What memory is made of, and which files it holds."""
    allow = (_RETURN, 0, 0, _ALLOW)
    return [
        # huge pages under memory that is shared with the verifier, which the baseline has not: it
        # would be read faster than theirs by no doing of the kernel's. As Linux before 6.1 says.
        ("madvise", [_argument(2), (_EQUAL, 0, 1, _MADV_COLLAPSE), _refuse(errno.EINVAL), allow]),
        # everybody's files out of memory, which whoever compiles next has to read again; and which
        # of them are in memory. With both a word could be left there for the next one.
        ("fadvise64", [_argument(3), (_EQUAL, 0, 1, _FADV_DONTNEED), _PRETEND, allow]),
        ("preadv2", [_argument(5), (_ANY_BIT, 0, 1, _RWF_NOWAIT), _refuse(errno.ENOTSUP), allow]),
    ]


def _ioctls(own_files: bool) -> list[Step]:
    refused = [_TIOCSTI, _TIOCLINUX, *(() if own_files else _OF_FILES)]
    no = _refuse(errno.EPERM)
    steps = [step for number in refused for step in ((_EQUAL, 0, 1, number), no)]
    return [_argument(1), *steps, (_RETURN, 0, 0, _ALLOW)]


def _limits(own_pids: bool) -> list[Step]:
    """Of others none, where it is the equal of others; and that of core dumps stays: with 0 instead
    of 1 the host's helper is started for them (``apply_layers.py``)."""
    allow, no = (_RETURN, 0, 0, _ALLOW), _refuse(errno.EPERM)
    itself: list[Step] = [] if own_pids else [_argument(0), (_EQUAL, 1, 0, 0), no]
    new = 2
    return [
        *itself,
        _argument(1),
        (_EQUAL, 1, 0, _RLIMIT_CORE),
        allow,
        _argument(new),
        (_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, 16 + 8 * new + 4),  # the upper half of its address
        (_EQUAL, 0, 1, 0),
        allow,
        _PRETEND,
    ]


def _own_only(name: str) -> list[Step]:
    """With 0 where a process is named, and the kind of name that a process has."""
    allow, no = (_RETURN, 0, 0, _ALLOW), _refuse(errno.EPERM)
    if name in BY_PID:
        return [_argument(0), (_EQUAL, 0, 1, 0), allow, no]
    steps = [_argument(0), (_EQUAL, 1, 0, BY_KIND[name]), no]
    return [*steps, _argument(1), (_EQUAL, 0, 1, 0), allow, no]


def _private_only(mode: int) -> list[Step]:
    """The kernel looks at no other bits of it."""
    allow = (_RETURN, 0, 0, _ALLOW)
    if os.geteuid() == 0:
        return [_PRETEND]
    return [_argument(mode), (_AND, 0, 0, 0o7777), (_EQUAL, 0, 1, 0o700), allow, _PRETEND]


def _argument(index: int) -> Step:
    return (_LOAD, 0, 0, 16 + 8 * index)


def _refuse(number: int) -> Step:
    return (_RETURN, 0, 0, _ERRNO | number)


def apply(code: bytes, *, all_threads: bool = False) -> None:
    """Filter this thread and all that it starts, for good. Needs no_new_privs.

    ``all_threads``: of this process; raises ``OSError`` if one has a filter of its own.
    Speculation stays as it is: the mitigation that a filter used to switch on protects a
    process from its own code, and would slow down what is being timed.
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
        steps = _head()
        steps += [(_EQUAL, 0, 1, NUMBERS["socket"]), _refuse(errno.EAFNOSUPPORT)]
        for name in BEING_NAMED:
            steps += [(_EQUAL, 0, 1, NUMBERS[name]), _refuse(errno.EPERM)]
        apply(_packed(steps), all_threads=True)
