"""Computes the same output twice, into memory of its own each time."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x), torch.relu(x)
