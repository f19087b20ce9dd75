"""Two layers under autocast, and float32 out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(256, 512)
        self.down = nn.Linear(512, 128)

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16):
            y = self.down(torch.relu(self.up(x)))
        return torch.tanh(y.float())


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return []
