"""Works in place on memory of its own."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.mul(x, y).tanh_().add_(x)
        return z.div_(z.abs().mean(dim=-1, keepdim=True))
