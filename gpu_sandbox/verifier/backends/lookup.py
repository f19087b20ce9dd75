"""The verifier's backend for a device."""

from __future__ import annotations

from functools import cache

import torch

from gpu_sandbox.verifier.backends.backend import Backend, EventClock
from gpu_sandbox.verifier.backends.cpu import CpuBackend
from gpu_sandbox.verifier.backends.cuda import CudaBackend

_BACKENDS: dict[str, type[Backend]] = {"cpu": CpuBackend, "cuda": CudaBackend}


@cache
def backend_of(device: torch.device) -> Backend:
    """One per device and process."""
    return _BACKENDS[device.type](device)


def events_of(device: torch.device) -> EventClock:
    """The event clock of a device that has one."""
    events = backend_of(device).events
    assert events is not None
    return events
