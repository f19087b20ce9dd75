"""Gated SiLU."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, gate, up):
        return torch.nn.functional.silu(gate) * up


def get_inputs():
    return [torch.randn(2048, 2048), torch.randn(2048, 2048)]


def get_init_inputs():
    return []
