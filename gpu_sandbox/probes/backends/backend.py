"""Protocol of the trusted probes' device: its facts, and how its peak rates are measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator
from gpu_sandbox.accelerator.driver_account import DriverAccount


class Backend(Accelerator):
    """One device. Each rate is the best of at least ``times`` runs that take at least ``least_s``.

    ``copied_bytes`` are so many that no cache holds them; ``side`` is of a square matrix."""

    times: ClassVar[int]
    least_s: ClassVar[float]
    copied_bytes: ClassVar[int]
    side: ClassVar[int]
    dtypes: ClassVar[Sequence[torch.dtype]]

    @abstractmethod
    def facts(self) -> dict[str, Any]: ...

    @abstractmethod
    def driver_account(self) -> DriverAccount | None:
        """None where no driver reports processes."""

    @abstractmethod
    def seconds(self, work: Callable[[], Any]) -> float:
        """Time of ``work``, once."""
