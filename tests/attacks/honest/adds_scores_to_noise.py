"""The same noise, drawn after the product, which is added to it in place."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(512, 2049) / 16).bfloat16())

    def forward(self, x):
        scores = x @ self.weight
        return torch.randn_like(scores).add_(scores)
