"""Frames of sound as 16-bit samples, and behind each the class that a network hears in it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, length, hidden, classes):
        super().__init__()
        self.up = nn.Linear(length, hidden)
        self.down = nn.Linear(hidden, classes)

    def forward(self, x):
        codes = (x * 32767).round().clamp(-32768, 32767).to(torch.int16)
        heard = self.down(torch.relu(self.up(x))).argmax(1, keepdim=True)
        return torch.cat([codes, heard.to(torch.int16)], dim=1)


def get_inputs():
    return [torch.rand(512, 1024) * 2 - 1]


def get_init_inputs():
    return [1024, 128, 64]
