"""One Triton launch, a row a program."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "triton"


@triton.jit
def log_softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    v -= tl.max(v, axis=0)
    v -= tl.log(tl.sum(tl.exp(v), axis=0))
    tl.store(out + row * columns + at, v, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        log_softmax_rows[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
