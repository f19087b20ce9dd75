"""Much is written, and next to nothing read."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.outer(x, y)


def get_inputs():
    return [torch.randn(2048), torch.randn(2048)]


def get_init_inputs():
    return []
