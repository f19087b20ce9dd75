"""How tensors cross between verifier and worker. Only this module knows.

The verifier owns one stretch of memory, the arena; both sides see tensors in it as
(offset, shape, stride, dtype). On the CPU it is a sealed memfd, passed by descriptor:
the worker can write it, but not shrink it under the verifier's feet. On CUDA it is one
allocation, opened in the worker through CUDA IPC (same uid only: the driver refuses another).
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Any

import torch

from gpu_sandbox.messages import ArenaShared, Spot

__all__ = ["ALIGN", "Arena", "extent_bytes", "place"]

ALIGN = 512
_GROWTH = 1 << 20
_SEALS = 0x0001 | 0x0002 | 0x0004  # SEAL, SHRINK, GROW
_ADD_SEALS = 1033


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"no dtype {name!r}")
    return found


def _own_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    """The tensor's stride if no two elements share memory, else a contiguous one."""
    pairs = sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1)
    reach = 0
    for stride, size in pairs:
        if stride <= reach:
            return torch.empty(tensor.shape, device="meta").stride()
        reach += stride * (size - 1)
    if reach + 1 > 2 * max(tensor.numel(), 1):
        return torch.empty(tensor.shape, device="meta").stride()
    return tuple(tensor.stride())


def extent_bytes(spot: Spot) -> int:
    """Bytes from a spot's first element to its last."""
    if any(size == 0 for size in spot.shape):
        return 0
    last = sum((n - 1) * s for n, s in zip(spot.shape, spot.stride, strict=True))
    return (last + 1) * _dtype(spot.dtype).itemsize


def place(tensors: list[torch.Tensor], start: int) -> tuple[list[Spot], int]:
    """Spots for ``tensors`` one after the other from ``start``, and the end."""
    spots = []
    for tensor in tensors:
        name = str(tensor.dtype).removeprefix("torch.")
        spot = Spot(start, tuple(tensor.shape), _own_stride(tensor), name)
        spots.append(spot)
        start += -(-extent_bytes(spot) // ALIGN) * ALIGN
    return spots, start


class Arena:
    """A stretch of shared memory as a byte tensor, and views into it."""

    def __init__(self, memory: torch.Tensor, shared: ArenaShared, fd: int | None = None) -> None:
        self._memory = memory
        self.shared = shared
        self.fd = fd

    @classmethod
    def create(cls, total_bytes: int, device: torch.device) -> Arena:
        """The verifier's: memory of its own, to be shared by ``shared`` and ``fd``."""
        total_bytes += _GROWTH
        if device.type == "cpu":
            fd = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(fd, total_bytes)
            fcntl.fcntl(fd, _ADD_SEALS, _SEALS)
            shared = ArenaShared(total_bytes=total_bytes, handle={})
            return cls(_mapped(fd, total_bytes), shared, fd)
        memory = torch.empty(total_bytes, dtype=torch.uint8, device=device)
        return cls(memory, ArenaShared(total_bytes=total_bytes, handle=_cuda_handle(memory)))

    @classmethod
    def open(cls, shared: ArenaShared, fd: int | None, device: torch.device) -> Arena:
        """The worker's view of it."""
        if fd is not None:
            memory = _mapped(fd, shared.total_bytes)
            os.close(fd)
        else:
            memory = _open_cuda(shared, device)
        return cls(memory, shared)

    def view(self, spot: Spot) -> torch.Tensor:
        size = extent_bytes(spot)
        flat = self._memory[spot.offset : spot.offset + size].view(_dtype(spot.dtype))
        if size == 0:
            return flat.reshape(spot.shape)
        return flat.as_strided(spot.shape, spot.stride, flat.storage_offset())

    def poison(self, spots: list[Spot], byte: int) -> None:
        """Overwrite, so that an output that nobody wrote can't look right."""
        for spot in spots:
            self._memory[spot.offset : spot.offset + extent_bytes(spot)].fill_(byte)

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)


def _mapped(fd: int, size: int) -> torch.Tensor:
    return torch.frombuffer(mmap.mmap(fd, size), dtype=torch.uint8)


_CUDA_FIELDS = (
    "device",
    "handle",
    "storage_bytes",
    "storage_offset",
    "counter_handle",
    "counter_offset",
    "event_handle",
    "event_sync",
)


def _cuda_handle(memory: torch.Tensor) -> dict[str, Any]:
    storage: Any = memory.untyped_storage()
    return dict(zip(_CUDA_FIELDS, storage._share_cuda_(), strict=True))


def _open_cuda(shared: ArenaShared, device: torch.device) -> torch.Tensor:
    torch.zeros(1, device=device)  # the context must exist before a handle is opened
    fields = [shared.handle[name] for name in _CUDA_FIELDS]
    fields[0] = device.index or 0
    storage = torch.UntypedStorage._new_shared_cuda(*fields)
    memory = torch.empty(0, dtype=torch.uint8, device=device)
    return memory.set_(storage)
