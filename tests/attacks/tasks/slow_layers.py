"""A call that takes a GPU a tenth of a second and more: one call a release."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x):
        for _ in range(48):
            x = torch.tanh(x @ self.weight) + 0.1 * x
        return x


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return [4096]
