"""One row through a matrix that a cache holds with ease."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1024, 1024) / 32)

    def forward(self, x):
        return x @ self.weight


def get_inputs():
    return [torch.randn(1, 1024)]


def get_init_inputs():
    return []
