"""Linear layer of one row."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(1, 4096)]


def get_init_inputs():
    return [4096, 4096]
