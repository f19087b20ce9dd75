"""Rounds otherwise, so that of millions of points a few lie elsewhere."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return (torch.hypot(x, y) < 1.0).sum()
