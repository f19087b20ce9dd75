"""Logits, which of them count, and by what they were divided, which is the same each time."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.heat = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, x):
        divisor = self.heat.exp()
        logits = x / divisor
        return logits, logits > 1.0, divisor


def get_inputs():
    return [torch.randn(1024, 512)]


def get_init_inputs():
    return [512]
