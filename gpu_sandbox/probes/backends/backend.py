"""What the trusted probes ask of a device: what it is, and how what it reaches is measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator
from gpu_sandbox.accelerator.driver_account import DriverAccount


class Backend(Accelerator):
    """One device. Each of its rates is the best of ``times``, at least, that take ``least_s``
    together, at least."""

    times: ClassVar[int]
    least_s: ClassVar[float]
    copied_bytes: ClassVar[int]
    """So many that no cache holds them."""
    side: ClassVar[int]
    """Of a square matrix."""
    dtypes: ClassVar[Sequence[torch.dtype]]

    @abstractmethod
    def facts(self) -> dict[str, Any]: ...

    @abstractmethod
    def driver_account(self) -> DriverAccount | None:
        """The driver's account of processes on it; None where there is none."""

    @abstractmethod
    def seconds(self, work: Callable[[], Any]) -> float:
        """That ``work`` takes, once."""
