"""Samples and classes are written into one output."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, length, hidden, classes):
        super().__init__()
        self.up = nn.Linear(length, hidden)
        self.down = nn.Linear(hidden, classes)

    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[1] + 1, dtype=torch.int16, device=x.device)
        out[:, :-1] = (x * 32767).round_().clamp_(-32768, 32767)
        out[:, -1] = self.down(self.up(x).relu_()).argmax(1)
        return out
