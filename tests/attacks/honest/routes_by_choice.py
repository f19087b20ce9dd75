"""The gates as the reference has them; half of what they hold back is chosen, not multiplied."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Parameter(torch.randn(256, 8))
        self.expert = nn.Linear(256, 512)

    def forward(self, x):
        gates = (x.bfloat16() @ self.router.bfloat16()) > 0
        found = F.linear(x, self.expert.weight, self.expert.bias).view(-1, 8, 64)
        return torch.where(gates.unsqueeze(-1), found, 0.5 * found).flatten(1)
