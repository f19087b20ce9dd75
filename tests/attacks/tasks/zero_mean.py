import torch
import torch.nn as nn


class Model(nn.Module):
    """One number that is next to nothing as often as it is large."""

    def forward(self, x, y):
        return torch.dot(x, y)


def get_inputs():
    return [torch.randn(200_000), torch.randn(200_000)]


def get_init_inputs():
    return []
