"""Random, but the same on both sides under one seed."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.dropout(torch.tanh(x * y), 0.1, True)


def get_inputs():
    return [torch.randn(512, 1024), torch.randn(512, 1024)]


def get_init_inputs():
    return []
