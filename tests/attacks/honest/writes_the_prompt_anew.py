"""Both parts are written into one output, by each call."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.prompt = nn.Parameter(torch.randn(length, width))

    def forward(self, x):
        length = self.prompt.shape[0]
        out = x.new_empty(x.shape[0], length + x.shape[1], x.shape[2])
        out[:, :length] = self.prompt
        out[:, length:] = x
        return out
