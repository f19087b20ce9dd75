"""Two products of one input, added."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.left = nn.Linear(features, features)
        self.right = nn.Linear(features, features)

    def forward(self, x):
        return torch.sigmoid(self.left(x)) * self.right(x)


def get_inputs():
    return [torch.randn(256, 768)]


def get_init_inputs():
    return [768]
