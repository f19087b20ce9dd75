"""Grid frequency: the mean deviation from 50 Hz."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x - 50.0).mean()


def get_inputs():
    return [50.0 + 0.02 * torch.randn(1 << 20)]


def get_init_inputs():
    return []
