"""One of its outputs has no element."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x), x[:, :0]


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []
