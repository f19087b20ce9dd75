"""Two outputs that are the same, and do not share memory."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return y, y.clone()


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return []
