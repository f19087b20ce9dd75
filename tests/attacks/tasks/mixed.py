"""A product in bf16 of what comes in float32, and float32 out."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(512, 256) / 512**0.5)
        self.bias = nn.Parameter(torch.randn(256) / 8)

    def forward(self, x):
        product = (x.bfloat16() @ self.weight.bfloat16()).float()
        return F.gelu(product + self.bias)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []
