"""What the verifier needs of a device: its memory, its state, and how calls on it are timed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator
from gpu_sandbox.accelerator.driver_account import DriverAccount
from gpu_sandbox.tensors.gate_layout import GateKernels


class Backend(Accelerator):
    """One device of the verifier's."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._fastest_ns: dict[tuple[int, int], float] = {}
        """To fill so many bytes, with so many threads of torch's."""

    @property
    @abstractmethod
    def events(self) -> EventClock | None:
        """None where a call is timed by the host's clock alone."""

    # --- state

    @abstractmethod
    def get_ready(self) -> None:
        """For a job: raises where an earlier candidate has wrecked the device, and begins what a
        job waits for otherwise."""

    @abstractmethod
    def conditions(self) -> dict[str, Any]:
        """What a timing depends on besides the code, as it is now; for the log."""

    @abstractmethod
    def driver_account(self) -> DriverAccount | None:
        """The driver's account of clocks and processes; None where there is none."""

    @abstractmethod
    def least_write_ns(self, size: int) -> float:
        """What writing so many bytes takes at least: less is not believed of a call's outputs.

        Measured here, in memory that is there already, by filling it, which reads nothing. A busy
        machine only makes that slower, so the fastest that was ever seen counts."""

    def _least_ns(self, size: int, took_ns: float) -> float:
        """That filling so many bytes ever took."""
        key = (size, torch.get_num_threads())
        self._fastest_ns[key] = min(self._fastest_ns.get(key, took_ns), took_ns)
        return self._fastest_ns[key]

    # --- memory besides the host's

    @abstractmethod
    def free_bytes(self) -> int | None:
        """None where it is the host's, which is not looked at."""

    @abstractmethod
    def is_crowded(self) -> bool:
        """Whether memory that an earlier worker has not given back yet may be missing."""

    @abstractmethod
    def allocated_bytes(self) -> int:
        """By torch's allocator, whose peak is measured from now on."""

    @abstractmethod
    def peak_bytes(self) -> int:
        """The most that it had allocated since ``allocated_bytes`` was asked."""

    @abstractmethod
    def is_much(self, size: int) -> bool:
        """Whether so many bytes of the device's memory are more than may be kept between jobs."""

    @abstractmethod
    def keep_little(self) -> None:
        """Give back what torch keeps and does not use, if it is much. Between jobs: what a job
        finds does not depend on the one before it."""

    @abstractmethod
    def leave_half(self) -> None:
        """Give it back if it is more than what is free. Within a job, when others come to need
        memory: audits and trials of gigabytes leave next to none."""


class EventClock(ABC):
    """A device with streams: calls are queued on it, timed by its own events, and let in by gates
    (``verifier/timing/gates.py``)."""

    kernel_ns: ClassVar[float]
    """Device time of a kernel on one element. What two events around it read beyond that is not the
    kernel's."""

    @abstractmethod
    def stream(self) -> int:
        """The driver's handle of the stream that is current."""

    @abstractmethod
    def compiled_kernels(self) -> bytes:
        """Ours, as machine code for this device (``cuda/nvrtc.py``). Raises ``NoKernels``."""

    @abstractmethod
    def kernels(self) -> GateKernels:
        """The same, loaded into this process's context when they are first asked for."""

    @abstractmethod
    def cache_bytes(self) -> int:
        """Of the last cache before its memory."""

    @abstractmethod
    def read_ns(self, work: Callable[[], object]) -> float:
        """Of ``work``, which is queued and not waited for; the least of a few looks."""

    @abstractmethod
    def reading_ns(self) -> float:
        """Where nothing lies between two events; the least of this process's life."""

    @abstractmethod
    def beyond_kernel_ns(self) -> float:
        """What events read of a call in this process beyond the device time of its kernels."""
