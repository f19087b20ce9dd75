"""Counts in each row, and adds that up."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x.view(1024, -1) > 50.0).sum(dim=1).sum()
