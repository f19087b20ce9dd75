"""Pointwise convolution."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, outputs):
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(8, 64, 56, 56)]


def get_init_inputs():
    return [64, 96]
