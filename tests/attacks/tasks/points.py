"""Monte Carlo: how many points lie within the unit circle. Rounding decides of some."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return (x * x + y * y < 1.0).sum()


def get_inputs():
    return [torch.rand(1 << 21), torch.rand(1 << 21)]


def get_init_inputs():
    return []
