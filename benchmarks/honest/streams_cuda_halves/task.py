"""Gate by tanh."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.tanh(x) * y


def get_inputs():
    return [torch.randn(1024, 1500), torch.randn(1024, 1500)]


def get_init_inputs():
    return []
