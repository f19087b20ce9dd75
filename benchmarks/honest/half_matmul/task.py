"""A product in half precision."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [
        torch.randn(768, 1024, dtype=torch.float16),
        torch.randn(1024, 768, dtype=torch.float16),
    ]


def get_init_inputs():
    return []
