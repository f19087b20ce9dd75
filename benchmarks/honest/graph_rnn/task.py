"""Seven steps of a recurrent network."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.input = nn.Linear(features, features)
        self.state = nn.Linear(features, features, bias=False)

    def forward(self, x, h):
        for step in x:
            h = torch.tanh(self.input(step) + self.state(h))
        return h


def get_inputs():
    return [torch.randn(7, 64, 256), torch.randn(64, 256)]


def get_init_inputs():
    return [256]
