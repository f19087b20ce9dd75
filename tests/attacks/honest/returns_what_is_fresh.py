"""Keeps nothing where the reference does, and returns the same."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tanh(x)
