"""Protocol of a worker's device: start, memory, streams, kernels, profiler."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Protocol, TypeAlias

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.worker_messages import Request
from gpu_sandbox.tensors.gate_layout import GateKernels, LaunchesKernels

EventPair: TypeAlias = tuple[Any, Any]
"""A pair of events."""


class ColdCache(Protocol):
    """State of the device before and between calls that its events time. Never waits."""

    def events(
        self, flush_bytes: int, cover_us: int, kernels: LaunchesKernels | None = None
    ) -> EventPair:
        """Events for a call on an overwritten cache, behind a cover. Without ``kernels`` lines that
        a program marked as persisting stay."""

    def mark(self, event: Any) -> None:
        """Record an event in the current stream."""

    def touch(self) -> torch.Tensor:
        """Queue a kernel on one element, which is returned."""

    def move_on(self) -> None:
        """Move the next call in the stream of commands by random small ones."""


class Backend(Accelerator):
    """One device of a worker."""

    @abstractmethod
    def prepare(self, channel: Channel[Request]) -> None:
        """Make what must be there before a candidate is; sends ``Done`` after each step."""

    @abstractmethod
    def cold_cache(self) -> ColdCache | None:
        """A new one; None where the host's clock alone times calls."""

    @abstractmethod
    def empty_cache(self) -> None:
        """Give back device memory that torch caches."""

    @abstractmethod
    def release_freed_memory(self) -> None:
        """Give back what allocators have kept until now."""

    @abstractmethod
    def pin(self, address: int, size: int) -> None:
        """Pin host memory: copies from it are slow otherwise, and unevenly so."""

    @abstractmethod
    def unpin(self, address: int) -> None: ...

    @abstractmethod
    def load_kernels(self, image: bytes) -> GateKernels:
        """Load the harness's own kernels, which the verifier has compiled."""

    @abstractmethod
    def write_behind(self, stream: int, address: int, number: int) -> None:
        """Write to host memory when all that was queued on the stream is done."""

    @abstractmethod
    def current_stream(self) -> Any:
        """The stream of calls; ``cuda_stream`` is its driver handle."""

    @abstractmethod
    def return_to(self, stream: Any) -> None:
        """Make it current again, and have it wait for what a call queued elsewhere."""

    # --- torch's profiler

    profiles: Literal["kernels", "operators"]

    @abstractmethod
    def profiler_options(self) -> dict[str, Any]: ...

    @abstractmethod
    def times_of(self, seen: Any) -> dict[str, list[int]]:
        """Nanoseconds of each kernel or operator, by name."""
