"""Its output is contiguous, in another order than its input."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x).transpose(1, 2).contiguous()


def get_inputs():
    return [torch.randn(16, 512, 512)]


def get_init_inputs():
    return []
