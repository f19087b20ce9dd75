"""Protocol of the verifier's device: state, memory, and the clock of calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator
from gpu_sandbox.accelerator.driver_account import DriverAccount
from gpu_sandbox.tensors.gate_layout import GateKernels


class Backend(Accelerator):
    """One device of the verifier."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._fastest_ns: dict[tuple[int, int], float] = {}  # by bytes and threads of torch

    @property
    @abstractmethod
    def events(self) -> EventClock | None:
        """None where the host's clock alone times calls."""

    # --- state

    @abstractmethod
    def get_ready(self) -> None:
        """Before a job: raise if the device does not work; begin what a job would wait for."""

    @abstractmethod
    def conditions(self) -> dict[str, Any]:
        """Conditions of a timing now, for the log."""

    @abstractmethod
    def driver_account(self) -> DriverAccount | None:
        """None where no driver reports clocks and processes."""

    @abstractmethod
    def least_write_ns(self, size: int) -> float:
        """Least time to write so many bytes, which a call's outputs need, too.

        Measured by filling memory that is there already, which reads nothing. The fastest ever
        counts, since a busy machine only makes it slower."""

    def _least_ns(self, size: int, took_ns: float) -> float:
        key = (size, torch.get_num_threads())
        self._fastest_ns[key] = min(self._fastest_ns.get(key, took_ns), took_ns)
        return self._fastest_ns[key]

    # --- memory besides the host's

    @abstractmethod
    def free_bytes(self) -> int | None:
        """None on the host, where it is not checked."""

    @abstractmethod
    def is_crowded(self) -> bool:
        """Whether an earlier worker may not have given its memory back yet."""

    @abstractmethod
    def allocated_bytes(self) -> int:
        """Bytes that torch's allocator has allocated; its peak is measured from now on."""

    @abstractmethod
    def peak_bytes(self) -> int:
        """The most since ``allocated_bytes`` was called."""

    @abstractmethod
    def is_much(self, size: int) -> bool:
        """Whether so many bytes are more than may be kept between jobs."""

    @abstractmethod
    def keep_little(self) -> None:
        """Between jobs, give back what torch caches, if it is much: a job does not depend on the
        one before it."""

    @abstractmethod
    def leave_half(self) -> None:
        """Within a job, give it back if it is more than what is free: audits and trials of
        gigabytes leave others almost nothing."""


class EventClock(ABC):
    """A device with streams: calls are queued, timed by its events, and released by gates."""

    kernel_ns: ClassVar[float]
    """Device time of a kernel on one element: events around it read more."""

    @abstractmethod
    def stream(self) -> int:
        """Driver handle of the current stream."""

    @abstractmethod
    def compiled_kernels(self) -> bytes:
        """The harness's, as machine code for this device. Raises ``NoKernels``."""

    @abstractmethod
    def kernels(self) -> GateKernels:
        """The same, loaded into this process's context at the first call."""

    @abstractmethod
    def cache_bytes(self) -> int:
        """Size of the last cache before memory."""

    @abstractmethod
    def read_ns(self, work: Callable[[], object]) -> float:
        """Time of ``work``, which queues and does not wait; the least of a few."""

    @abstractmethod
    def reading_ns(self) -> float:
        """Time between two adjacent events; the least in this process's life."""

    @abstractmethod
    def beyond_kernel_ns(self) -> float:
        """What events read in this process beyond the device time of kernels."""
