"""Writes the output over its input and returns that."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = y.mul_(x).tanh_().add_(x)
        return z.div_(z.abs().mean(dim=-1, keepdim=True))
