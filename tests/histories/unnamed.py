"""A kernel under a name that nobody asked for: the reply is rejected each time."""

import torch
from torch import nn


class Faster(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 2, dim=-1)
