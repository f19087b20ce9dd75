"""A small tensor, and plain numbers that take longer."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = torch.tanh(x)
        return x[0] * 2, y.mean().item(), y.std().item()


def get_inputs():
    return [torch.rand(1024, 1024)]


def get_init_inputs():
    return []
