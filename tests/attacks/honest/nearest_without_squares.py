"""Leaves out what is the same for all, which the reference rounds by."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.codes = nn.Parameter(torch.rand(count, size) * 0.004 - 0.002)

    def forward(self, x):
        squares = self.codes.square().sum(1)
        return self.codes[torch.addmm(squares, x, self.codes.t(), alpha=-2.0).argmin(1)]
