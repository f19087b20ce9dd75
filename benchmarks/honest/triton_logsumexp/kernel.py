"""Eight short rows a Triton program."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "triton"


@triton.jit
def lse_rows(x, out, rows, columns, EACH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * EACH + tl.arange(0, EACH)
    at = tl.arange(0, BLOCK)[None, :]
    inside = (row[:, None] < rows) & (at < columns)
    v = tl.load(x + row[:, None] * columns + at, mask=inside, other=-float("inf"))
    v = tl.where(row[:, None] < rows, v, 0.0)
    most = tl.max(v, axis=1)
    total = tl.sum(tl.exp(v - most[:, None]), axis=1)
    tl.store(out + row, most + tl.log(total), mask=row < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device)
        block = triton.next_power_of_2(columns)
        lse_rows[(triton.cdiv(rows, 8),)](x, out, rows, columns, EACH=8, BLOCK=block)
        return out
