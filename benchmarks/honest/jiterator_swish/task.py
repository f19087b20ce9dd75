"""Swish times another input."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return x * torch.sigmoid(x) * y


def get_inputs():
    return [torch.randn(1024, 1200), torch.randn(1024, 1200)]


def get_init_inputs():
    return []
