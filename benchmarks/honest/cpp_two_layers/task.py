"""Two layers with SiLU."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.up(x)))


def get_inputs():
    return [torch.randn(64, 768)]


def get_init_inputs():
    return [768, 768]
