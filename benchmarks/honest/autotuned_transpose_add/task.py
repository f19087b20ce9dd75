"""A matrix and another's transpose, added."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a + b.t()


def get_inputs():
    return [torch.randn(1536, 2048), torch.randn(2048, 1536)]


def get_init_inputs():
    return []
