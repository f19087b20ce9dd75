"""What draws other numbers in float64 is held to nothing on changed inputs; nothing is too loud on
the task's."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, size, limit):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(width, size) * width**-0.5)
        self.spread = nn.Parameter(torch.randn(width, size) * 0.1 * width**-0.5)
        self.limit = limit

    def forward(self, x):
        y = x[:, : self.mean.shape[0]]
        mean = y @ self.mean
        return mean + torch.exp(y @ self.spread) * torch.randn_like(mean)
