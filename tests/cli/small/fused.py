"""A canned candidate: fused."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(torch.add(x * 2, 1), dim=-1)
