"""Copies the rows in one go, and returns each as an output of its own."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2048, 4092))

    def forward(self, x, start):
        rows = self.table.detach().narrow(0, int(start), 512).clone()
        return list(rows.unbind(0)), x.sum()
