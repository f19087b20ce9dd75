"""Returns what it keeps, and overwrites at its next call."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(512, 1024))

    def forward(self, x):
        self.kept.copy_(torch.tanh(x))
        return self.kept


def get_inputs():
    return [torch.randn(512, 1024)]


def get_init_inputs():
    return []
