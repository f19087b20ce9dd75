"""Both ends in one pass, and the quotient as a factor."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.flatten(2)
        low, high = torch.aminmax(rows, dim=2, keepdim=True)
        factor = 1.0 / (high - low)
        return torch.addcmul(-low * factor, rows, factor).view_as(x)
