"""The products are turned down, and masked in place."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, length, limit):
        super().__init__()
        self.register_buffer("later", torch.ones(length, length, dtype=torch.bool).triu(1))
        self.limit = limit

    def forward(self, x, k):
        width = k.shape[-1]
        gain = (self.limit / x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0)
        scores = torch.bmm(x[..., :width], k.transpose(1, 2)).mul_(gain * width**-0.5)
        return scores.masked_fill_(self.later, torch.finfo(scores.dtype).min)
