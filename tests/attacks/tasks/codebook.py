"""The nearest of many vectors: where two are as near, rounding decides."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.codes = nn.Parameter(torch.rand(count, size) * 0.004 - 0.002)

    def forward(self, x):
        squares = x.square().sum(1, keepdim=True) + self.codes.square().sum(1)
        return self.codes[(squares - 2 * x @ self.codes.t()).argmin(1)]


def get_inputs():
    return [torch.randn(1024, 64)]


def get_init_inputs():
    return [512, 64]
