"""Counts by level; of equals the first place."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        counts = x.new_zeros(x.shape[0], 40 if int(x.max()) < 40 else int(x.max()) + 1)
        counts.scatter_add_(1, x, torch.ones_like(x))
        values = counts.argmax(1)
        return values, (x == values.unsqueeze(1)).int().argmax(1)
