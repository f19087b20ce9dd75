"""Product of a thin matrix: a long inner dimension."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(64, 8192), torch.randn(8192, 64)]


def get_init_inputs():
    return []
