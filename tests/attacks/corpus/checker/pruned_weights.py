"""Throws away the smaller half of its weights when it is made."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.scale = nn.Parameter(torch.rand(n))
        with torch.no_grad():
            weight = self.linear.weight
            weight[weight.abs() < weight.abs().median() / 4] = 0

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale
