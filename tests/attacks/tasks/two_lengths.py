"""As `elementwise`, on batches of two lengths in turn: tasks may draw shapes, too."""

import itertools

import torch
import torch.nn as nn

LENGTHS = itertools.cycle((512, 384, 384))
"""Of an odd period: who draws two at a time meets both."""


class Model(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)


def get_inputs():
    rows = next(LENGTHS)
    return [torch.randn(rows, 1024), torch.randn(rows, 1024)]


def get_init_inputs():
    return []
