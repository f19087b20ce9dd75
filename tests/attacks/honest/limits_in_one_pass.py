"""Turns down what has to be, and leaves the rest as it is: as fast as that allows."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, threshold, window):
        super().__init__()
        self.threshold, self.window = threshold, window

    def forward(self, x):
        if float(x.abs().max()) <= self.threshold:
            return x.clone()
        peak = F.max_pool1d(x.abs(), self.window, stride=1, padding=self.window // 2)
        return x * torch.clamp(self.threshold / peak.clamp(min=1e-6), max=1.0)
