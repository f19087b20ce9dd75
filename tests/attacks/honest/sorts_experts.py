"""Sorts all, equals in their order, and takes the first."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, experts).bfloat16() * width**-0.5)

    def forward(self, x):
        best = torch.sort(x @ self.weight, dim=1, descending=True, stable=True)
        return best.values[:, :8].contiguous(), best.indices[:, :8].contiguous()
