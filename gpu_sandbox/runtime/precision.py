"""Lower precision than float32 in a float32 task, where the user declared it.

Its error is how far the reference's float64 result moves when inputs and weights are rounded.
"""

from __future__ import annotations

import torch

from gpu_sandbox.accelerator.lookup import accelerator_of
from gpu_sandbox.api.protocols import Precision

_DROPPED = 13  # of float32's 23 bits of a fraction: TF32 keeps ten


def settle_precision(precision: Precision) -> None:
    """Of torch's own float32 products. Convolutions may use TF32, as PyTorch's default is
    (``verifier/trials/convolution_recheck.py``)."""
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")


def rounded(tensor: torch.Tensor, precision: Precision) -> torch.Tensor:
    """A float32 tensor's values as ``precision`` holds them, to the nearest, ties to even; in
    float64. Other floating point tensors are widened only, the rest stay as they are."""
    if tensor.dtype != torch.float32 or precision == "float32":
        return tensor.double() if tensor.is_floating_point() else tensor
    if precision == "bf16":
        return tensor.bfloat16().double()
    return in_tf32(tensor).double()


def in_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """A float32 tensor's values as TF32 holds them, to the nearest, ties to even; in float32."""
    bits = tensor.view(torch.int32)
    up = (1 << (_DROPPED - 1)) - 1 + ((bits >> _DROPPED) & 1)
    cut = ((bits + up) >> _DROPPED) << _DROPPED
    return torch.where(torch.isfinite(tensor), cut.view(torch.float32), tensor)


def grants_tf32(device: torch.device, precision: Precision) -> bool:
    """Whether PyTorch's defaults let float32 convolutions use TF32 there, undeclared."""
    return accelerator_of(device).has_tf32 and precision == "float32"
