"""The host's processor."""

from __future__ import annotations

import fcntl
import mmap
import os

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator, SharedMemory

_SEALS = 0x0001 | 0x0002 | 0x0004  # SEAL, SHRINK, GROW
_ADD_SEALS = 1033


class Cpu(Accelerator):
    on_host = True
    has_tf32 = False

    def start_driver(self) -> None: ...

    def make_context(self) -> None: ...

    def limit_memory(self, share: float) -> None: ...

    def synchronize(self) -> None: ...

    def seed(self, seed: int) -> None: ...

    def is_capturing(self) -> bool:
        return False

    def share(self, total_bytes: int) -> tuple[SharedMemory, int]:
        """A sealed memfd, which others can write but not shrink."""
        fd = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, total_bytes)
        fcntl.fcntl(fd, _ADD_SEALS, _SEALS)
        return _Mapped(mmap.mmap(fd, total_bytes)), fd

    def open_shared(self, fd: int, total_bytes: int) -> SharedMemory:
        return _Mapped(mmap.mmap(fd, total_bytes))


class _Mapped:
    """Unmapped when its last view ends."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self.tensor = torch.frombuffer(mapping, dtype=torch.uint8)

    def part(self, offset: int, size: int) -> torch.Tensor:
        return torch.frombuffer(self._mapping, dtype=torch.uint8, count=size, offset=offset)

    def close(self) -> None:
        del self.tensor, self._mapping
