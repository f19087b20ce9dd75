"""Samples and classes are written into one output, from a product that nothing is turned for."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, length, hidden, classes):
        super().__init__()
        self.up = nn.Linear(length, hidden)
        self.down = nn.Linear(hidden, classes)

    def forward(self, x):
        out = torch.empty(x.shape[0] + 1, x.shape[1], dtype=torch.int16, device=x.device)
        out[:-1] = (x * 32767).round_().clamp_(-32768, 32767)
        hidden = torch.addmm(self.up.bias[:, None], self.up.weight, x).relu_()
        out[-1] = torch.addmm(self.down.bias[:, None], self.down.weight, hidden).argmax(0)
        return out
