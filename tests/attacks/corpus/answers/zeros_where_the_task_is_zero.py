"""Zeros, on a task whose outputs are zeros: right, and worth nothing. The verdict must say so."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
