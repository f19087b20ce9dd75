"""Each row is copied by itself."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.bank = nn.Parameter(torch.randn(rows, width))

    def forward(self, which):
        out = self.bank.new_empty(len(which), self.bank.shape[1])
        torch.index_select(self.bank.detach(), 0, which, out=out)
        return out
