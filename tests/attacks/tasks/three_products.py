"""Queries, keys and values, which are what the first of attention's steps makes."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.q = nn.Linear(size, size)
        self.k = nn.Linear(size, size // 4)
        self.v = nn.Linear(size, size // 4)

    def forward(self, x):
        return self.q(x), self.k(x), self.v(x)


def get_inputs():
    return [torch.randn(4, 128, 256)]


def get_init_inputs():
    return [256]
