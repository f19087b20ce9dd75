"""A chain of elementwise operations."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        z = torch.sigmoid(x) * y
        z = torch.tanh(z + x) - 0.1 * y
        return torch.where(z > 0, z, 0.2 * z) + x.abs().sqrt()


def get_inputs():
    return [torch.randn(512, 512), torch.randn(512, 512)]


def get_init_inputs():
    return []
