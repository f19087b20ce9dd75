"""Keeps a workspace between calls; what it returns is fresh."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.space = None

    def forward(self, x, y):
        if self.space is None or self.space.shape != x.shape:
            self.space = torch.empty_like(x)
        torch.mul(x, y, out=self.space)
        z = self.space.tanh_().add_(x)
        return z / z.abs().mean(dim=-1, keepdim=True)
