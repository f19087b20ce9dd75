"""What children on either side need of the device that they compute on.

Each kind of device has an implementation here, and one beside the code of each side
(``verifier/backends/``, ``worker/backends/``, ``probes/backends/``), which adds what only that side
asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import torch


class NoKernels(Exception):
    """The harness's own kernels could not be compiled."""


class SharedMemory(Protocol):
    """Memory of a device that another process maps, too. ``close`` when no view is left."""

    tensor: torch.Tensor
    """All of its bytes."""

    def part(self, offset: int, size: int) -> torch.Tensor:
        """So many bytes from there on, one at least, as a tensor that has a storage of its own."""

    def close(self) -> None: ...


class Accelerator(ABC):
    """One device of this process. Making one asks nothing of the device."""

    on_host: ClassVar[bool]
    """Whether it is the host's processor: calls run in their own process, which can be stopped and
    whose memory can be read, and there are no streams, no events and no memory besides."""
    has_tf32: ClassVar[bool]
    """Whether float32 products can be made with it, as convolutions are by PyTorch's default."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @abstractmethod
    def start_driver(self) -> None:
        """What a context needs and what disturbs nobody on the device. ``SystemExit`` with the
        reason if it fails."""

    @abstractmethod
    def make_context(self) -> None:
        """And give up what only that took. ``SystemExit`` with the reason if there can be none."""

    @abstractmethod
    def limit_memory(self, share: float) -> None:
        """Of the device's memory, this process may take so much at most."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all that was queued, and raise what failed of it."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Its own generator, if it has one besides the host's."""

    @abstractmethod
    def is_capturing(self) -> bool:
        """Whether what is queued now goes to a graph, which reading a value would end."""

    @abstractmethod
    def share(self, total_bytes: int) -> tuple[SharedMemory, int]:
        """New memory, at least so much, and a descriptor of it, which the caller closes."""

    @abstractmethod
    def open_shared(self, fd: int, total_bytes: int) -> SharedMemory:
        """The memory behind another process's descriptor, which stays the caller's."""
