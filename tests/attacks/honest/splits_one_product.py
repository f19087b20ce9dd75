"""Multiplies once, and returns parts of that: their rows have gaps between them."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.q = nn.Linear(size, size)
        self.k = nn.Linear(size, size // 4)
        self.v = nn.Linear(size, size // 4)
        self.weight = None

    def forward(self, x):
        if self.weight is None:
            parts = (self.q, self.k, self.v)
            self.weight = torch.cat([part.weight for part in parts])
            self.bias = torch.cat([part.bias for part in parts])
            self.sizes = [part.out_features for part in parts]
        return F.linear(x, self.weight, self.bias).split(self.sizes, dim=-1)
