"""Integers, by other operations."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x + x + x).add_(torch.bitwise_right_shift(x, 2))
