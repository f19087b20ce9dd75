"""A canned candidate: repaired."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x + x, dim=-1)
