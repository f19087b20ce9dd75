"""A small task for tests of the command line: nothing in it needs a compiler."""

import torch
from torch import nn


class Model(nn.Module):
    """softmax(2x + 1), on purpose in three steps."""

    def forward(self, x):
        y = x * 2
        y = y + 1
        return torch.softmax(y, dim=-1)


def get_inputs():
    return [torch.randn(32, 256)]


def get_init_inputs():
    return []
