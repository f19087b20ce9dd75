"""Products of operands in two parts of eleven bits, as tensor cores make them of float32."""

import torch
import torch.nn as nn


def parts(value):
    """High and low, with the fraction of TF32."""

    def cut(x):
        bits = x.contiguous().view(torch.int32)
        return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)

    high = cut(value)
    return high, cut(value - high)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 32, 3)
        self.norm = nn.GroupNorm(8, 32)

    def forward(self, x):
        (high, low), (weight, rest) = parts(x), parts(self.conv.weight)
        convolve = nn.functional.conv2d
        y = convolve(high, weight, self.conv.bias) + convolve(high, rest) + convolve(low, weight)
        pooled = nn.functional.max_pool2d(self.norm(y), 4)
        return torch.clamp(pooled - 1.5, 0.0, 1.0)
