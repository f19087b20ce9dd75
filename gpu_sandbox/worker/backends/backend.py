"""What a worker needs of a device: its start, its memory, its streams, what a profiler says."""

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
    """What lies before and between calls that a device's events time. Nothing is waited for."""

    def events(
        self, flush_bytes: int, cover_us: int, kernels: LaunchesKernels | None = None
    ) -> EventPair:
        """For a call on a cache that holds other things, behind work that lasts so long. Without
        ``kernels`` it holds what it was told to keep, too."""

    def mark(self, event: Any) -> None:
        """Now, in the stream that is current."""

    def touch(self) -> torch.Tensor:
        """A kernel on one element, which is returned."""

    def move_on(self) -> None:
        """The next call lies elsewhere in the stream of commands than it would."""


class Backend(Accelerator):
    """One device of a worker's."""

    @abstractmethod
    def prepare(self, channel: Channel[Request]) -> None:
        """Whatever of it must be there before a candidate is; ``Done`` says so each time."""

    @abstractmethod
    def cold_cache(self) -> ColdCache | None:
        """A new one; None where a call is timed by the host's clock alone."""

    @abstractmethod
    def empty_cache(self) -> None:
        """Give back device memory that torch keeps and does not use."""

    @abstractmethod
    def release_freed_memory(self) -> None:
        """Give back, once, what allocators have kept until now."""

    @abstractmethod
    def pin(self, address: int, size: int) -> None:
        """Of the host's memory, or copies from it would be slow, and unevenly so."""

    @abstractmethod
    def unpin(self, address: int) -> None: ...

    @abstractmethod
    def load_kernels(self, image: bytes) -> GateKernels:
        """The harness's own, as the verifier has compiled them."""

    @abstractmethod
    def write_behind(self, stream: int, address: int, number: int) -> None:
        """To that address of the host's memory, when all that was queued on the stream is done."""

    @abstractmethod
    def current_stream(self) -> Any:
        """Calls are queued on it; ``cuda_stream`` is the driver's handle of it."""

    @abstractmethod
    def return_to(self, stream: Any) -> None:
        """It is current again, and what is queued on it from now on waits for what a call has
        queued elsewhere."""

    # --- what torch's profiler sees of calls

    profiles: Literal["kernels", "operators"]

    @abstractmethod
    def profiler_options(self) -> dict[str, Any]: ...

    @abstractmethod
    def times_of(self, seen: Any) -> dict[str, list[int]]:
        """Nanoseconds of each that it saw, by name."""
