"""Spreads what is overexposed along rows, then along columns."""

import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, x):
        clipped = (x.amax(dim=1, keepdim=True) >= 1.0).to(x.dtype)
        rows = F.max_pool2d(clipped, (15, 1), stride=1, padding=(7, 0))
        return F.max_pool2d(rows, (1, 15), stride=1, padding=(0, 7)) > 0
