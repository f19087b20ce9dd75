"""Numbers that mark something in an input: they are there exactly, and often.

Zero, its least or its largest: what was left out, cut off or filled up. Rounding makes none of
these, so where inputs are moved by rounding they stay, or all that goes by them would turn.
"""

from __future__ import annotations

import torch

__all__ = ["marks"]

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_OFTEN, _MARKED_OF = 8, 1024
"""So often, and in more than one in so many elements, a number is no accident."""


def marks(tensor: torch.Tensor) -> torch.Tensor | None:
    """Where it is one of these; None if it has no such."""
    if tensor.dtype not in _DTYPES or tensor.numel() < _MARKED_OF:
        return None
    often, found = max(_OFTEN, tensor.numel() // _MARKED_OF), None
    for value in (torch.zeros_like(ends := tensor.aminmax().min), ends, tensor.amax()):
        here = tensor == value
        if int(here.sum()) > often:
            found = here if found is None else found.logical_or_(here)
    return found
