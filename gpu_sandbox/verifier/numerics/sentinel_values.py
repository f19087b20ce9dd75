"""Sentinel values of an input: zeros, minima or maxima that it holds often and exactly.

They pad, clip or mask. Rounding makes none of them, so perturbations leave them as they are.
"""

from __future__ import annotations

import torch

from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES

_MIN_COUNT, _ONE_IN = 8, 1024  # A number that is there more often than both is no accident


def sentinel_mask(tensor: torch.Tensor) -> torch.Tensor | None:
    """Mark the sentinel values; None if there are none."""
    if tensor.dtype not in TOLERANCES or tensor.numel() < _ONE_IN:
        return None
    often, found = max(_MIN_COUNT, tensor.numel() // _ONE_IN), None
    for value in (torch.zeros_like(ends := tensor.aminmax().min), ends, tensor.amax()):
        here = tensor == value
        if int(here.sum()) > often:
            found = here if found is None else found.logical_or_(here)
    return found
