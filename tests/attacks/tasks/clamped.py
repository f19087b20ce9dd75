import torch
import torch.nn as nn


class Model(nn.Module):
    """Behind the clamp, whole rows are next to nothing."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 32, 3)
        self.norm = nn.GroupNorm(8, 32)

    def forward(self, x):
        pooled = nn.functional.max_pool2d(self.norm(self.conv(x)), 4)
        return torch.clamp(pooled - 1.5, 0.0, 1.0)


def get_inputs():
    return [torch.rand(8, 8, 62, 62)]
