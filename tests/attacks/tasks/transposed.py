"""An output that is not contiguous."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x).t()


def get_inputs():
    return [torch.randn(512, 768)]


def get_init_inputs():
    return []
