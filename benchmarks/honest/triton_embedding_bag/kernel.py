"""Gathers and sums in one Triton launch."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "triton"


@triton.jit
def bag(ids, table, out, features, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < features
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(COUNT):
        entry = tl.load(ids + row * COUNT + k)
        total += tl.load(table + entry * features + at, mask=inside, other=0.0)
    tl.store(out + row * features + at, total, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, count, features):
        super().__init__()
        self.table = nn.Embedding(count, features)

    def forward(self, ids):
        weight = self.table.weight
        bags, count = ids.shape
        features = weight.shape[1]
        out = torch.empty(bags, features, device=ids.device)
        block = triton.next_power_of_2(features)
        bag[(bags,)](ids, weight, out, features, COUNT=count, BLOCK=block, num_warps=2)
        return out
