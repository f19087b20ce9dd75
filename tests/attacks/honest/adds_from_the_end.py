"""Adds the columns up one by one, the last first."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, prices):
        *others, costs = prices.unbind(1)
        for column in reversed(others):
            costs = costs + column
        return costs, int((costs > 4.5).sum())
