"""Two small layers with a norm."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.up = nn.Linear(features, 2 * features)
        self.down = nn.Linear(2 * features, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x + self.down(torch.relu(self.up(x))))


def get_inputs():
    return [torch.randn(128, 256)]


def get_init_inputs():
    return [256]
