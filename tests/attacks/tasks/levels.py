"""The most frequent level of each row, and where it is: which of them PyTorch leaves open."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        m = torch.mode(x, dim=1)
        return m.values, m.indices


def get_inputs():
    return [torch.randint(0, 40, (512, 255))]


def get_init_inputs():
    return []
