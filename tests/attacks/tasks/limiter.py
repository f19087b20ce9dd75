"""A look-ahead peak limiter: where a window's peak is above the threshold, it is turned down."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, threshold, window):
        super().__init__()
        self.threshold, self.window = threshold, window

    def forward(self, x):
        peak = F.max_pool1d(x.abs(), self.window, stride=1, padding=self.window // 2)
        return x * torch.clamp(self.threshold / peak.clamp(min=1e-6), max=1.0)


def get_inputs():
    return [(torch.rand(2, 1, 1 << 14) * 2 - 1) * 0.8]


def get_init_inputs():
    return [0.9, 6145]
