"""A worker's backend for a device."""

from __future__ import annotations

from functools import cache

import torch

from gpu_sandbox.worker.backends.backend import Backend
from gpu_sandbox.worker.backends.cpu import CpuBackend
from gpu_sandbox.worker.backends.cuda import CudaBackend

_BACKENDS: dict[str, type[Backend]] = {"cpu": CpuBackend, "cuda": CudaBackend}


@cache
def backend_of(device: torch.device) -> Backend:
    """One per device and process."""
    return _BACKENDS[device.type](device)
