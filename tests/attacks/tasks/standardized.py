"""A convolution whose batch norm goes by running statistics: zeros and ones in a new module."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3, padding=1)
        self.norm = nn.BatchNorm2d(32).eval()

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(2, 16, 48, 48)]


def get_init_inputs():
    return []
