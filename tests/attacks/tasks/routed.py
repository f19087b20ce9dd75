"""Eight gates in bf16, and what they let through in float32."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Parameter(torch.randn(256, 8))
        self.expert = nn.Linear(256, 512)

    def forward(self, x):
        gates = (x.bfloat16() @ self.router.bfloat16()) > 0
        return torch.where(gates.repeat_interleave(64, dim=1), 1.0, 0.5) * self.expert(x)


def get_inputs():
    return [torch.randn(1024, 256)]


def get_init_inputs():
    return []
