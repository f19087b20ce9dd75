"""A product in bf16, and one in float32 beside it in the same output."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.coarse = nn.Parameter(torch.randn(512, 128) / 512**0.5)
        self.fine = nn.Parameter(torch.randn(512, 256) / 512**0.5)

    def forward(self, x):
        coarse = (x.bfloat16() @ self.coarse.bfloat16()).float()
        return torch.cat([coarse, x @ self.fine], dim=1)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []
