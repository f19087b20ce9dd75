"""Overwriting of outputs after use, and the test whether they were written since."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

MAX_OVERWRITTEN = 1 << 30  # bytes; of a larger output a part is


@torch.inference_mode()  # what such a mode has made can be written to in one only
def write_over(memory: Sequence[torch.Tensor]) -> None:
    """With NaN, or other bits: parts that are the same each time have to be written each time."""
    for part in memory:
        if part.is_floating_point() or part.is_complex():
            part.fill_(math.nan)
        else:
            part.bitwise_not_()


def is_written_over(tensor: torch.Tensor) -> bool:
    """Whether it is as ``write_over`` left it."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    lost = tensor.isnan()
    whole = tensor.nbytes <= MAX_OVERWRITTEN
    return bool(lost.all() if whole else lost.any()) and tensor.numel() > 0
