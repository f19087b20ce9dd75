"""Two Triton passes, by rows into a side allocation and by columns out of it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "side-allocation"


@triton.jit
def blur(x, out, n, length, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = at // stride % length
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(-2, 3):
        inside = (at < n) & (place + k >= 0) & (place + k < length)
        total += tl.load(x + at + k * stride, mask=inside, other=0.0)
    tl.store(out + at, total * 0.2, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        scratch, out = torch.empty_like(x), torch.empty_like(x)
        n, (height, width) = x.numel(), x.shape[2:]
        grid = (triton.cdiv(n, 1024),)
        blur[grid](x, scratch, n, width, 1, BLOCK=1024)
        blur[grid](scratch, out, n, height, width, BLOCK=1024)
        return out
