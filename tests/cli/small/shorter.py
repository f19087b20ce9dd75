"""A canned candidate: shorter."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 2, dim=-1)
