"""Verifier on the host's processor."""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from gpu_sandbox.accelerator.cpu import Cpu
from gpu_sandbox.verifier.backends.backend import Backend

_MIN_BYTES, _MAX_BYTES = 1 << 20, 1 << 26
"""Less is written in no time beside the call; more is beyond caches and takes in proportion."""
_FILLS = 5


class CpuBackend(Cpu, Backend):
    events = None

    def get_ready(self) -> None: ...

    def conditions(self) -> dict[str, Any]:
        return {"cores": sorted(os.sched_getaffinity(0))}

    def driver_account(self) -> None:
        return None

    def least_write_ns(self, size: int) -> float:
        filled = min(size, _MAX_BYTES)
        if filled < _MIN_BYTES:
            return 0.0
        buffer = torch.zeros(filled, dtype=torch.uint8)
        for _ in range(_FILLS):
            began = time.perf_counter_ns()
            buffer.fill_(1)
            least = self._least_ns(filled, time.perf_counter_ns() - began)
        return least * size / filled

    def free_bytes(self) -> None:
        return None

    def is_crowded(self) -> bool:
        return False

    def allocated_bytes(self) -> int:
        return 0

    def peak_bytes(self) -> int:
        return 0

    def is_much(self, size: int) -> bool:
        return False

    def keep_little(self) -> None: ...

    def leave_half(self) -> None: ...
