"""The accelerator of one of torch's devices."""

from __future__ import annotations

from functools import cache

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator
from gpu_sandbox.accelerator.cpu import Cpu
from gpu_sandbox.accelerator.cuda import Cuda


@cache
def accelerator_of(device: torch.device) -> Accelerator:
    """Tensors that have no memory (``meta``) are the host's: there is nothing to ask of them."""
    return Cuda(device) if device.type == "cuda" else Cpu(device)
