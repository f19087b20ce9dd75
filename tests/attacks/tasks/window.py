"""Rows of a table from one on, each an output of its own, and none of four whole pages."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2048, 4092))

    def forward(self, x, start):
        first = int(start)
        return list(self.table[first : first + 512].detach().clone().unbind(0)), x.sum()


def get_inputs():
    return [torch.randn(1024), torch.randint(0, 1536, ())]


def get_init_inputs():
    return []
