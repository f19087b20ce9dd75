"""Overwrite outputs, and see whether they were written since."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

_WRITTEN_OVER_WHOLE = 1 << 30


@torch.inference_mode()  # what such a mode has made can be written to in one only
def write_over(memory: Sequence[torch.Tensor]) -> None:
    """What of an output is the same each time is to be written each time."""
    for part in memory:
        if part.is_floating_point() or part.is_complex():
            part.fill_(math.nan)
        else:
            part.bitwise_not_()


def is_written_over(tensor: torch.Tensor) -> bool:
    """Whether it looks as after ``write_over``, and nothing was written to it since."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    lost = tensor.isnan()
    whole = tensor.nbytes <= _WRITTEN_OVER_WHOLE
    return bool(lost.all() if whole else lost.any()) and tensor.numel() > 0
