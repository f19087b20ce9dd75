"""diag(A) B: one program a row, which its element of A scales."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_rows(a_ptr, b_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    factor = tl.load(a_ptr + row)
    b = tl.load(b_ptr + row * columns + offsets, mask=inside)
    tl.store(out_ptr + row * columns + offsets, factor * b, mask=inside)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        A, B = A.contiguous(), B.contiguous()
        out = torch.empty_like(B)
        rows, columns = B.shape
        block = triton.next_power_of_2(columns)
        scale_rows[(rows,)](A, B, out, columns, BLOCK=block, num_warps=8)
        return out
