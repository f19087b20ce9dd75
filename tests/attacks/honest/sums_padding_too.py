"""Adds zeros up as well, which changes no sum."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.sum(1) / x.abs().amax(-1).ne(0).sum(1, keepdim=True).clamp(min=1)
