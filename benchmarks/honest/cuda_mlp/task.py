"""A perceptron of three layers."""

from itertools import pairwise

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        sizes = [features, hidden, hidden, features]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x):
        x = torch.relu(self.layers[0](x))
        x = torch.relu(self.layers[1](x))
        return self.layers[2](x)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return [512, 1024]
