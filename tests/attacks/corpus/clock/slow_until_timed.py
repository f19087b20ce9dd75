"""Dawdles in trials, warm-up and calibration, so that whatever is set by them is set wrong:
calls per sample, margins, what counts as slow."""

import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, y):
        self.calls += 1
        if self.calls < 12:
            time.sleep(0.03)
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
