"""Softmax of one long vector."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=0)


def get_inputs():
    return [torch.randn(1 << 20)]


def get_init_inputs():
    return []
