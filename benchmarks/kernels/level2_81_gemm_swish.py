"""The matmul is cuBLAS's; swish, halving, clamp and tanh are one pass in place."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def finish(y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    y = tl.load(y_ptr + offsets, mask=inside)
    y = y * tl.sigmoid(y) * 0.5
    y = tl.minimum(tl.maximum(y, -1.0), 1.0)
    y = 2.0 * tl.sigmoid(2.0 * y) - 1.0  # tanh, whose clamp to -1..1 does nothing
    tl.store(y_ptr + offsets, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.gemm(x)
        n = y.numel()
        finish[(triton.cdiv(n, 2048),)](y, n, BLOCK=2048, num_warps=8)
        return y
