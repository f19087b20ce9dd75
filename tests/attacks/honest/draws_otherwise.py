"""One more draw before its parameters, which the reference's values take the place of."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("noise", torch.randn(4))
        self.linear = nn.Linear(n, n)
        self.scale = nn.Parameter(torch.rand(n))

    def forward(self, x):
        return torch.relu_(self.linear(x)).mul_(self.scale)
