"""Convolution, clamp, scale by channel."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, outputs):
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 3, stride=2, padding=1)
        self.scale = nn.Parameter(torch.rand(outputs, 1, 1) + 0.5)

    def forward(self, x):
        return torch.clamp(self.conv(x), -0.5, 0.5) * self.scale


def get_inputs():
    return [torch.randn(8, 32, 64, 64)]


def get_init_inputs():
    return [32, 64]
