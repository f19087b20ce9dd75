"""Gated GELU with a skip."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, gate):
        return torch.nn.functional.gelu(x) * torch.sigmoid(gate) + 0.5 * x


def get_inputs():
    return [torch.randn(1024, 1024), torch.randn(1024, 1024)]


def get_init_inputs():
    return []
