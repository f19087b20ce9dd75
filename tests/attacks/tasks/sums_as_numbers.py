"""A list of sums, one of which comes out next to nothing."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x).sum(-1).tolist(), x[0]


def get_inputs():
    return [torch.randn(1024, 256)]


def get_init_inputs():
    return []
