"""Claims four fifths of what it takes: less than a quarter off, which noise might be.

Behind a gate calls of this length can be told to within some percent.
"""

import torch
import torch.nn as nn

SHARE = 0.8
# @include shaved


class ModelNew(nn.Module):
    def forward(self, place):
        apart = place.unsqueeze(1) - place.unsqueeze(0)
        square = apart.square().sum(-1)
        square.fill_diagonal_(float("inf"))
        sixth = square.pow(-3)
        size = 24 * (2 * sixth * sixth - sixth) / square
        return (size.unsqueeze(-1) * apart).sum(1)
