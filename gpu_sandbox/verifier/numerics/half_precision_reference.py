"""Is a float32 output off from its float64 run by what 16 bits round, and by nothing else?

A reference may compute in bfloat16 inside and return float32. Then nearly each element is off by
about as much, or each of a part of it. Where only some are, and by much, they fell on the other
side of an edge: the rest is as exact as float32 is, and so is a candidate's to be.
"""

from __future__ import annotations

import torch

from gpu_sandbox.tensors.chunked import as_real
from gpu_sandbox.verifier.numerics.rules.error_quantiles import LEAST_SIZE, looked_at
from gpu_sandbox.verifier.numerics.tolerances import LOWERED, RULES

__all__ = ["MOSTLY", "lowered"]

_SPREAD = 1e-4
"""What such elements are off by, at least, as a share of each. Six layers in float16 make 5e-4 of
it, in bfloat16 3e-3, and float32 makes 1e-6."""
MOSTLY = 0.5
_PART = 1 / 16
"""Of the elements that count, at least: fewer fall on the other side of an edge by chance."""
_ROUNDED, _OF_THEM = 0.05, 0.9
"""What so many of a part are off by, at most."""


def lowered(truth: torch.Tensor, native: torch.Tensor, own: float) -> float:
    """What share of the elements is, as of those that count; 0 if that is no rounding. ``own``: the
    relative L2 distance of the two."""
    dtype = native.dtype.to_real() if native.is_complex() else native.dtype
    if dtype != torch.float32 or not RULES[dtype].sane < own <= LOWERED.sane:
        return 0.0
    flat = looked_at(*(as_real(t.detach()).reshape(-1) for t in (truth, native)))
    exact, mine = (t.double().nan_to_num(0.0, 0.0, 0.0) for t in flat)
    size = exact.abs()
    there = size[size > 0]
    if not there.numel():
        return 0.0
    counts = size > LEAST_SIZE * there.median()
    off = (mine - exact).abs()[counts] / size[counts]
    rounded = off > _SPREAD
    share = float(rounded.double().mean())
    if share > MOSTLY:
        return share
    if share < _PART or float((off[rounded] < _ROUNDED).double().mean()) < _OF_THEM:
        return 0.0
    return share
