"""Tokens in the order of their experts: which of one expert's comes first PyTorch leaves open."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, experts):
        return x[torch.argsort(experts)] * 2.0


def get_inputs():
    return [torch.randn(4096, 64), torch.randint(0, 16, (4096,))]


def get_init_inputs():
    return []
