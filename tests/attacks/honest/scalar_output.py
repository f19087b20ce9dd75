"""A scalar, by another reduction."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        d = (x - y).view(-1)
        return torch.dot(d, d) / d.numel()
