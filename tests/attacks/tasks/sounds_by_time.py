"""Samples of many sounds at once as 16-bit samples, and as the last row the class of each."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, length, hidden, classes):
        super().__init__()
        self.up = nn.Linear(length, hidden)
        self.down = nn.Linear(hidden, classes)

    def forward(self, x):
        codes = (x * 32767).round().clamp(-32768, 32767).to(torch.int16)
        heard = self.down(torch.relu(self.up(x.T))).argmax(1)
        return torch.cat([codes, heard.to(torch.int16)[None]])


def get_inputs():
    return [torch.rand(1024, 512) * 2 - 1]


def get_init_inputs():
    return [1024, 256, 64]
