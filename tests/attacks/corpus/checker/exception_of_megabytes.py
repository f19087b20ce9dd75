"""Raises with a message of a hundred megabytes, from a frame of a hundred recursions."""

import torch
import torch.nn as nn


def deep(n):
    if n == 0:
        raise ValueError("x" * 100_000_000)
    deep(n - 1)


class ModelNew(nn.Module):
    def forward(self, x, y):
        torch.zeros(1)
        deep(100)
