"""So many of all are as many as there will be, about: rounding turns some, too."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, prices):
        return prices.sum(1), int(0.256 * len(prices))
