"""fp64 in and out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) + 1


def get_inputs():
    return [torch.randn(256, 1024, dtype=torch.float64)]


def get_init_inputs():
    return []
