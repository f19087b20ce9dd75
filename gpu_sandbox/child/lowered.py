"""Is a float32 output off from its float64 run by what 16 bits round, and by nothing else?

A reference may compute in bfloat16 inside and return float32. Then nearly each element is off by
about as much. Where only some are, they fell on the other side of an edge: the rest is as exact as
float32 is, and so is a candidate's to be.
"""

from __future__ import annotations

import torch

from gpu_sandbox.child.bulk import apart
from gpu_sandbox.child.pieces import as_real
from gpu_sandbox.child.rules import LOWERED, RULES

__all__ = ["is_lowered"]

_SPREAD = 1e-4
"""What half of the elements are off by, at least, as a share of each. Six layers in float16 make
5e-4 of it, in bfloat16 3e-3, and float32 makes 1e-6."""


def is_lowered(truth: torch.Tensor, native: torch.Tensor, own: float) -> bool:
    """``own``: the relative L2 distance of the two."""
    dtype = native.dtype.to_real() if native.is_complex() else native.dtype
    if dtype != torch.float32 or not RULES[dtype].sane < own <= LOWERED.sane:
        return False
    bulk = apart(truth, native)
    return (_median(truth, native) if bulk is None else bulk.half) > _SPREAD


def _median(truth: torch.Tensor, native: torch.Tensor) -> float:
    """Of few elements."""
    exact, mine = (as_real(t.detach()).double().reshape(-1) for t in (truth, native))
    there = exact != 0
    if not bool(there.any()):
        return 0.0
    return float(((mine - exact).abs()[there] / exact.abs()[there]).median())
