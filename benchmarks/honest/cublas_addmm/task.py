"""Linear, ReLU, scale."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = nn.Linear(features, outputs)
        self.scale = nn.Parameter(torch.rand(outputs))

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale


def get_inputs():
    return [torch.randn(512, 768)]


def get_init_inputs():
    return [768, 512]
