"""Detect float32 outputs that the reference computes in 16 bits.

Then nearly each element is off from the float64 run by about as much, or each of a part. Where only
some are, and by much, rounding flipped them: the rest is as exact as float32, and so is a
candidate's to be.
"""

from __future__ import annotations

import torch

from gpu_sandbox.tensors.chunked import as_real
from gpu_sandbox.verifier.numerics.rules.error_quantiles import MIN_SIZE, sample_of
from gpu_sandbox.verifier.numerics.tolerances import HALF_PRECISION, TOLERANCES, tolerance_of

_MIN_ERROR = 1e-4  # relative: six layers in float16 make 5e-4, in bfloat16 3e-3, in float32 1e-6
MOSTLY = 0.5
_MIN_PART = 1 / 16  # of the elements that count: fewer may be flips
_MAX_ERROR, _OF_THEM = 0.05, 0.9  # what so many of a part are off by, at most


def half_precision_share(truth: torch.Tensor, native: torch.Tensor, own: float) -> float:
    """Return the share of elements with a half precision error, of those that count; 0 if the error
    is something else. ``own``: the relative L2 distance of the two."""
    by_dtype = tolerance_of(native)
    if by_dtype is not TOLERANCES[torch.float32]:
        return 0.0
    if not by_dtype.max_own_error < own <= HALF_PRECISION.max_own_error:
        return 0.0
    flat = sample_of(*(as_real(t.detach()).reshape(-1) for t in (truth, native)))
    exact, mine = (t.double().nan_to_num(0.0, 0.0, 0.0) for t in flat)
    size = exact.abs()
    there = size[size > 0]
    if not there.numel():
        return 0.0
    counts = size > MIN_SIZE * there.median()
    off = (mine - exact).abs()[counts] / size[counts]
    rounded = off > _MIN_ERROR
    share = float(rounded.double().mean())
    if share > MOSTLY:
        return share
    if share < _MIN_PART or float((off[rounded] < _MAX_ERROR).double().mean()) < _OF_THEM:
        return 0.0
    return share
