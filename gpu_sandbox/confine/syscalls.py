"""Linux calls that Python has no name for, by number (``syscall_numbers.py``).

Invariant: a wrapper either did what its name says or raised ``OSError`` that names the call. The C
library is entered with the GIL held (``PyDLL``): ``clone`` returns a second time, in a process
whose only thread must find the interpreter as it was left.
"""

from __future__ import annotations

import ctypes
import os
import struct

from gpu_sandbox.confine.syscall_numbers import MACHINE, NUMBERS

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_SIGCHLD = 17
_SA_NOCLDSTOP = 1
_SIGACTION_BYTES, _FLAGS_AT = 152, 136
"""Of the C library's ``struct sigaction``, on both machines: handler, 128 bytes of mask, flags."""
_PR_CAPBSET_DROP = 24
_CAPABILITY_V3 = 0x20080522
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_LIBC = ctypes.PyDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_LIBC.mount.restype = ctypes.c_int
_LIBC.mount.argtypes = [
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
]


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """The call's result. Raises ``OSError``; ENOSYS where this machine has no such call."""
    number = NUMBERS.get(name)
    if number is None:
        raise OSError(38, f"{name}: no such call on {MACHINE}")
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_LIBC.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise _error(name)
    return result


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def clone(flags: int) -> int:
    """``fork`` with CLONE_NEW* flags: the child's pid, or 0 in the child.

    Runs no fork handlers, so the child may only do plain work and ``os.fork`` again.
    """
    return call("clone", flags | _SIGCHLD, 0, 0, 0, 0)


def unshare(flags: int) -> None:
    call("unshare", flags)


def prctl(option: int, *arguments: int) -> int:
    padded = [*arguments, 0, 0, 0, 0][:4]
    return call("prctl", option, *padded)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = (os.fsencode(source), os.fsencode(target), kind.encode() or None)
    if _LIBC.mount(*words, flags, data.encode() or None) != 0:
        raise _error(f"mount {kind or source} on {target}")


def unmount(target: str, flags: int) -> None:
    call("umount2", os.fsencode(target), flags)


def pivot_root(new: str, old: str) -> None:
    call("pivot_root", os.fsencode(new), os.fsencode(old))


def lock_tree(target: str) -> None:
    """Read-only, nosuid, nodev for a mount and all below it, in one call (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
    block = ctypes.create_string_buffer(attributes, 32)
    call("mount_setattr", _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, block, 32)


def drop_bounding_set() -> None:
    """Needs CAP_SETPCAP; raises ``OSError`` without it."""
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == 22:  # past the kernel's last one
                return
            raise


def keep_only(mask: int) -> None:
    """Permitted and effective become what is held of ``mask``; inheritable becomes empty."""
    mask &= held_capabilities()
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_V3, 0), 8)
    data = ctypes.create_string_buffer(struct.pack("=6I", low, low, 0, high, high, 0), 24)
    call("capset", header, data)


def ignore_child_stops() -> None:
    """Have SIGCHLD come for children that end, not for those that are stopped or go on."""
    action = ctypes.create_string_buffer(_SIGACTION_BYTES)
    if _LIBC.sigaction(_SIGCHLD, None, action):
        raise _error("sigaction")
    (flags,) = struct.unpack_from("=i", action, _FLAGS_AT)
    struct.pack_into("=i", action, _FLAGS_AT, flags | _SA_NOCLDSTOP)
    if _LIBC.sigaction(_SIGCHLD, action, None):
        raise _error("sigaction")


def held_capabilities() -> int:
    """The effective set, as a mask."""
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_V3, 0), 8)
    data = ctypes.create_string_buffer(24)
    call("capget", header, data)
    words = struct.unpack("=6I", data.raw)
    return int(words[0] | words[3] << 32)


def lacks(capability: int) -> bool:
    return not held_capabilities() >> capability & 1


def close_all_but(kept: set[int]) -> None:
    """Close every descriptor that is not in ``kept``."""
    edges = [-1, *sorted(kept)]
    for low, high in zip(edges, [*edges[1:], 1 << 32], strict=True):
        if high - low > 1:
            try:
                call("close_range", low + 1, high - 1, 0)
            except OSError:  # before Linux 5.9, and on gVisor
                os.closerange(low + 1, min(high, os.sysconf("SC_OPEN_MAX")))


def flush_c_output() -> None:
    """What C code printed and libc still buffers: ``os._exit`` would lose it."""
    _LIBC.fflush(None)
