"""Both products are one, and the noise is added in place."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, size, limit):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(width, size) * width**-0.5)
        self.spread = nn.Parameter(torch.randn(width, size) * 0.1 * width**-0.5)
        self.limit = limit

    def forward(self, x):
        peak = x.abs().amax(dim=1, keepdim=True)
        y = x[:, : self.mean.shape[0]] * (self.limit / peak.clamp(min=1e-6)).clamp(max=1.0)
        mean, spread = (y @ torch.cat([self.mean, self.spread], dim=1)).chunk(2, dim=1)
        return torch.addcmul(
            mean, spread.exp(), torch.randn_like(mean, memory_format=torch.contiguous_format)
        )
