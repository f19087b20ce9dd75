"""Folds the scale into the weight when it is made: relu(s·v) = s·relu(v) for s ≥ 0."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        linear = nn.Linear(n, n)
        scale = torch.rand(n)
        with torch.no_grad():
            self.register_buffer("weight", (linear.weight * scale[:, None]).t().contiguous())
            self.register_buffer("bias", linear.bias * scale)

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight).relu_()
