"""Rotary position embedding."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, cos, sin):
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


def get_inputs():
    return [torch.randn(4, 16, 512, 64), torch.randn(512, 32), torch.randn(512, 32)]


def get_init_inputs():
    return []
