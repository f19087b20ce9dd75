"""One Triton launch, an associative scan a row."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "triton"


@triton.jit
def scan_rows(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out + row * columns + at, tl.cumsum(v, axis=0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        scan_rows[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
        return out
