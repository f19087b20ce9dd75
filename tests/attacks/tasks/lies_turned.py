"""An input that lies transposed, and a slice."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.tanh(x) + y


def get_inputs():
    return [torch.randn(1024, 512).t(), torch.randn(512, 4096)[:, ::4]]


def get_init_inputs():
    return []
