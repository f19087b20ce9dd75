"""Inherits the reference's structure from a base class of its own, and overrides forward."""

import torch
import torch.nn as nn


class Base(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.scale = nn.Parameter(torch.rand(n))


class ModelNew(Base):
    def forward(self, x):
        return self.linear(x).relu_().mul_(self.scale)
