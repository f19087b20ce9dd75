"""Both parts are written into one output, by each call."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.place = nn.Parameter(torch.randn(length, width))

    def forward(self, x):
        width = x.shape[2]
        one = x.new_empty(*x.shape[:2], width + self.place.shape[1])
        one[..., width:] = self.place
        one[..., :width] = x
        return one
