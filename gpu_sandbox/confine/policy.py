"""Limits of a confined process, names of the layers, and failures to set one up.

Invariant: a layer's name means one thing everywhere: here, in verdicts and in ``engine doctor``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Literal

import msgspec


class Layer(StrEnum):
    """All layers, in the order in which they are named."""

    USER = "namespaces:user"
    MOUNT = "namespaces:mount"
    NET = "namespaces:net"
    IPC = "namespaces:ipc"
    PID = "namespaces:pid"
    UTS = "namespaces:uts"
    CGROUP_NAMESPACE = "namespaces:cgroup"
    UID = "uid"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    CGROUP = "cgroup"
    WATCH = "memory:watched"  # stands in for ``CGROUP`` in limiting memory, where that is missing
    RLIMITS = "rlimits"
    NO_NEW_PRIVS = "no-new-privs"


Tier = Literal["A", "B", "C"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What one jail may have. Sizes in bytes; paths are absolute."""

    home: str
    """The only place to write. A tmpfs of the jail where mount namespaces hold; else this empty
    directory, which becomes the jail's uid's where ``uid`` holds."""
    readable: tuple[str, ...] = ()
    """Files and directories to read on top of what an interpreter and a compiler need."""
    devices: tuple[str, ...] = ()
    """Device nodes to open, such as ``/dev/nvidia0``."""
    memory_bytes: int = 16 << 30
    """Of the whole jail, by cgroup or watched; with ``address_space`` also of new addresses of each
    process."""
    address_space: bool = False
    """Never with CUDA, which reserves terabytes of addresses."""
    processes: int = 256
    """Processes and threads alive at once."""
    file_bytes: int = 1 << 30
    """Largest file."""
    descriptors: int = 1024
    """Open files of one process."""
    cpu_s: int = 1200
    """CPU seconds of one process, summed over its threads."""
    tmpfs_bytes: int = 2 << 30
    """Home, ``/tmp`` and ``/dev/shm`` together, where mount namespaces hold."""
    affinity: tuple[int, ...] = ()
    """CPU cores; empty leaves them unchanged. Under seccomp it can't be changed again."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """End of the candidate process: ``code`` or ``signal``, or neither if its jail init was killed
    from outside."""

    code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    """A process of it was killed for the memory limit; all, where memory is watched."""


class LayerFailed(Exception):
    """A layer could not be set up. ``reason`` is one line."""

    def __init__(self, layer: str, reason: str) -> None:
        super().__init__(f"{layer}: {reason}")
        self.layer = layer
        self.reason = reason


class SpawnFailed(LayerFailed):
    """No candidate was started: ``layer``, which the survey had promised, failed.

    ``layer`` is ``"jail init"`` or ``"start"`` when it was something else.
    """


@contextmanager
def setting_up(layer: str) -> Iterator[None]:
    """The kernel's errors are failures of ``layer``."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise LayerFailed(layer, str(error)) from error


def may_connect(layers: Collection[str]) -> bool:
    """Whether a process can connect to a socket of another one in the same jail."""
    return Layer.MOUNT in layers or Layer.SECCOMP not in layers


def tier_of(layers: frozenset[str] | set[str], *, kernel_has_landlock: bool) -> Tier:
    """A: namespaces and all else that the kernel has. B: no namespaces. C: less."""
    own = Layer.UID in layers or Layer.USER in layers
    walls = {Layer.MOUNT, Layer.NET, Layer.IPC, Layer.PID, Layer.SECCOMP} <= layers
    if walls and own and (Layer.LANDLOCK in layers or not kernel_has_landlock):
        return "A"
    if Layer.SECCOMP in layers and (Layer.UID in layers or Layer.LANDLOCK in layers):
        return "B"
    return "C"
