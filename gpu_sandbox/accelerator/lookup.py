"""The accelerator for a device."""

from __future__ import annotations

from functools import cache

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator
from gpu_sandbox.accelerator.cpu import Cpu
from gpu_sandbox.accelerator.cuda import Cuda


@cache
def accelerator_of(device: torch.device) -> Accelerator:
    """``meta`` tensors have no memory and count as the host's."""
    return Cuda(device) if device.type == "cuda" else Cpu(device)
