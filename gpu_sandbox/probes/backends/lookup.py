"""The probes' backend for a device."""

from __future__ import annotations

from functools import cache

import torch

from gpu_sandbox.probes.backends.backend import Backend
from gpu_sandbox.probes.backends.cpu import CpuBackend
from gpu_sandbox.probes.backends.cuda import CudaBackend

_BACKENDS: dict[str, type[Backend]] = {"cpu": CpuBackend, "cuda": CudaBackend}


@cache
def backend_of(device: torch.device) -> Backend:
    """One per device and process."""
    return _BACKENDS[device.type](device)
