"""Into which bin each number falls, by sorted edges."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, edges, x):
        return torch.searchsorted(edges, x)


def get_inputs():
    return [torch.sort(torch.rand(16)).values, torch.rand(256, 512)]


def get_init_inputs():
    return []
