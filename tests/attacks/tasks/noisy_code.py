"""A code with noise of its own, of a signal that is turned down where it is too loud."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, size, limit):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(width, size) * width**-0.5)
        self.spread = nn.Parameter(torch.randn(width, size) * 0.1 * width**-0.5)
        self.limit = limit

    def forward(self, x):
        peak = x.abs().amax(dim=1, keepdim=True)
        y = x[:, : self.mean.shape[0]] * (self.limit / peak.clamp(min=1e-6)).clamp(max=1.0)
        mean = y @ self.mean
        return mean + torch.exp(y @ self.spread) * torch.randn_like(mean)


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return [64, 16, 8.0]
