"""Sorts whole rows, values and places, into allocations of each call."""

import torch
import torch.nn as nn

KIND = "side-allocation"


class ModelNew(nn.Module):
    def forward(self, x):
        values, places = torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)
        torch.sort(x, dim=1, descending=True, out=(values, places))
        return values[:, :16].contiguous()
