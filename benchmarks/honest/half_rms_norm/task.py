"""Root-mean-square norm in bfloat16, added up in float32."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter((torch.rand(features) + 0.5).to(torch.bfloat16))

    def forward(self, x):
        v = x.float()
        v = v * torch.rsqrt(v.square().mean(dim=-1, keepdim=True) + 1e-6)
        return v.to(torch.bfloat16) * self.weight


def get_inputs():
    return [torch.randn(2048, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return [1024]
