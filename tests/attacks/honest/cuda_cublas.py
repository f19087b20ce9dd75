"""cuBLAS through torch, in a module of its own."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        linear = nn.Linear(n, n)
        self.weight = nn.Parameter(linear.weight.detach().t().contiguous())
        self.bias = nn.Parameter(linear.bias.detach())
        self.scale = nn.Parameter(torch.rand(n))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight).relu_().mul_(self.scale)
