"""Grid frequency: how many readings are above 50 Hz. They differ by little beside what they are."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x > 50.0).sum()


def get_inputs():
    return [50.0 + 0.02 * torch.randn(1 << 20)]


def get_init_inputs():
    return []
