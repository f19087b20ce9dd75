"""Causal softmax that reads what is below the diagonal only."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "triton"


@triton.jit
def causal_rows(scores, out, positions, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    seen = at <= row % positions
    v = tl.load(scores + row * positions + at, mask=seen, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * positions + at, e / tl.sum(e, axis=0), mask=at < positions)


class ModelNew(nn.Module):
    def __init__(self, positions):
        super().__init__()
        self.positions = positions

    def forward(self, scores):
        out = torch.empty_like(scores)
        n = self.positions
        causal_rows[(scores.numel() // n,)](scores, out, n, BLOCK=triton.next_power_of_2(n))
        return out
