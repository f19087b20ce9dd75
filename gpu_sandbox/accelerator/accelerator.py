"""Protocol of the device that a child computes on.

Each kind of device has an implementation here, and one beside the code of each side, which adds
what only that side asks (``verifier/backends/``, ``worker/backends/``, ``probes/backends/``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import torch


class NoKernels(Exception):
    """The harness's own kernels could not be compiled."""


class SharedMemory(Protocol):
    """Memory of a device that another process maps, too; ``tensor`` is all of its bytes. ``close``
    when no view is left."""

    tensor: torch.Tensor

    def part(self, offset: int, size: int) -> torch.Tensor:
        """``size`` bytes, at least one, as a tensor with a storage of its own."""

    def close(self) -> None: ...


class Accelerator(ABC):
    """One device of this process. The constructor does not touch the device."""

    on_host: ClassVar[bool]
    """The host's processor: calls run in their own process, which can be stopped and whose memory
    can be read; there are no streams, events or other memory."""
    has_tf32: ClassVar[bool]
    """Whether it has TF32, which PyTorch's convolutions use by default."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @abstractmethod
    def start_driver(self) -> None:
        """The part of making a context that does not disturb the device. ``SystemExit`` with the
        reason if it fails."""

    @abstractmethod
    def make_context(self) -> None:
        """And drop rights that only this needed. ``SystemExit`` with the reason if it fails."""

    @abstractmethod
    def limit_memory(self, share: float) -> None:
        """Limit this process to a share of the device's memory."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all that was queued, and raise its errors."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Seed the device's own generator, if it has one."""

    @abstractmethod
    def is_capturing(self) -> bool:
        """Whether a graph is being captured, which reading a value would end."""

    @abstractmethod
    def share(self, total_bytes: int) -> tuple[SharedMemory, int]:
        """New memory of at least that size, and a descriptor of it, which the caller closes."""

    @abstractmethod
    def open_shared(self, fd: int, total_bytes: int) -> SharedMemory:
        """The memory of another process's descriptor, which stays the caller's."""
