"""RMS norm in one Triton launch."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "triton"


@triton.jit
def rms_rows(x, weight, out, columns, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + start + at, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) / columns + eps)
    tl.store(out + start + at, v * scale * tl.load(weight + at, mask=inside), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        rms_rows[(x.shape[0],)](x, self.weight, out, x.shape[1], 1e-6, BLOCK=block, num_warps=8)
        return out
