"""Holds a constant in a registered buffer that is not saved."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.ones(1024, 1) / 1024, persistent=False)

    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / (z.abs() @ self.one)
