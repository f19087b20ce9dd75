"""Looks each byte up in a table of booleans."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(256) != 0)

    def forward(self, x):
        return self.table[x.long()]
