"""Atomic sums into zeros, then a root: a fill and two launches."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "triton-many"


@triton.jit
def add_squares(x, sums, rows, columns, EACH: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((1, BLOCK), dtype=tl.float32)
    for start in range(tl.program_id(1) * EACH, rows, tl.num_programs(1) * EACH):
        row = start + tl.arange(0, EACH)[:, None]
        v = tl.load(x + row * columns + column, mask=(row < rows) & (column < columns), other=0.0)
        total += tl.sum(v * v, axis=0)[None, :]
    tl.atomic_add(sums + column, total, mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        sums = torch.zeros(columns, device=x.device)
        add_squares[(triton.cdiv(columns, 64), 32)](x, sums, rows, columns, EACH=32, BLOCK=64)
        return sums.sqrt_()
