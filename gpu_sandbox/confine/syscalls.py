"""The Linux calls that Python has no name for, by number, on x86_64 and aarch64.

Invariant: a wrapper either did what its name says or raised ``OSError`` that names the call.
The C library is entered with the GIL held (``PyDLL``), because ``clone`` returns twice: the
second time in a process whose only thread must find the interpreter as it was left.
"""

from __future__ import annotations

import ctypes
import os
import struct

__all__ = [
    "CLONE_NEWCGROUP",
    "CLONE_NEWIPC",
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "CLONE_NEWUTS",
    "MACHINE",
    "NUMBERS",
    "call",
    "clear_capabilities",
    "clone",
    "close_all_but",
    "drop_bounding_set",
    "flush_c_output",
    "held_capabilities",
    "keep_only",
    "lacks",
    "lock_tree",
    "mount",
    "pivot_root",
    "prctl",
    "unmount",
    "unshare",
]

MACHINE = os.uname().machine

# name: (x86_64, aarch64); None where the architecture has no such call
_TABLE: dict[str, tuple[int | None, int | None]] = {
    "_sysctl": (156, None),
    "accept": (43, 202),
    "accept4": (288, 242),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bind": (49, 200),
    "bpf": (321, 280),
    "capget": (125, 90),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "ioprio_set": (251, 30),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "listen": (50, 201),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "seccomp": (317, 277),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setpriority": (141, 140),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
_COLUMN = {"x86_64": 0, "aarch64": 1}.get(MACHINE)
NUMBERS: dict[str, int] = (
    {}
    if _COLUMN is None
    else {name: number for name, row in _TABLE.items() if (number := row[_COLUMN]) is not None}
)
"""This machine's numbers; empty on an architecture that nobody has looked at."""

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_SIGCHLD = 17
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
        _fail(name)
    return result


def _fail(name: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{name}: {os.strerror(number)}")


def clone(flags: int) -> int:
    """``fork`` with CLONE_NEW* flags: the child's pid, or 0 in the child.

    Runs no fork handlers, of libc or of Python. The child may therefore only do plain work
    and ``os.fork`` again, after which everything is as usual in the grandchild.
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
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind or source} on {target}: {os.strerror(number)}")


def unmount(target: str, flags: int) -> None:
    call("umount2", os.fsencode(target), flags)


def pivot_root(new: str, old: str) -> None:
    call("pivot_root", os.fsencode(new), os.fsencode(old))


def lock_tree(target: str) -> None:
    """Read-only, nosuid, nodev for a mount and all below it, in one call (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
    block = ctypes.create_string_buffer(attributes, 32)
    call("mount_setattr", _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, block, 32)


def drop_bounding_set(keep: int = 0) -> None:
    """Needs CAP_SETPCAP; raises ``OSError`` without it."""
    for capability in range(64):
        if keep >> capability & 1:
            continue
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == 22:  # past the kernel's last one
                return
            raise


def clear_capabilities() -> None:
    keep_only(0)


def keep_only(mask: int) -> None:
    """Permitted and effective become what is held of ``mask``; inheritable becomes empty."""
    mask &= held_capabilities()
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_V3, 0), 8)
    data = ctypes.create_string_buffer(struct.pack("=6I", low, low, 0, high, high, 0), 24)
    call("capset", header, data)


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
    for low, high in zip(edges, [*edges[1:], 1 << 20], strict=True):
        if high - low > 1:
            _close_range(low + 1, high - 1)


def _close_range(first: int, last: int) -> None:
    try:
        call("close_range", first, 0xFFFFFFFF if last >= (1 << 20) - 1 else last, 0)
    except OSError:  # before Linux 5.9, and on gVisor
        os.closerange(first, min(last + 1, os.sysconf("SC_OPEN_MAX")))


def flush_c_output() -> None:
    """What C code printed and libc still buffers: ``os._exit`` would lose it."""
    _LIBC.fflush(None)
