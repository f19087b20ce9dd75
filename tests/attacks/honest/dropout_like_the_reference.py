"""Draws from the global generator exactly as the reference does."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.dropout((x * y).tanh_(), 0.1, True)
