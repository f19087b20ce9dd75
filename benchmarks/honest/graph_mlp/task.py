"""Feed-forward block with GELU and residual."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def get_inputs():
    return [torch.randn(128, 512)]


def get_init_inputs():
    return [512, 1024]
