"""Rounds to integers."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(torch.round(x / 0.05), -128, 127).to(torch.int8)


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return []
