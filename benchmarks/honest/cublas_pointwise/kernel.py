"""A pointwise convolution as cuBLAS's batched product."""

import torch
import torch.nn as nn

KIND = "cublas"


class ModelNew(nn.Module):
    def __init__(self, channels, outputs):
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 1)

    def forward(self, x):
        batch, channels, height, width = x.shape
        weight = self.conv.weight.view(1, -1, channels).expand(batch, -1, -1)
        flat = x.view(batch, channels, height * width)
        return torch.baddbmm(self.conv.bias.view(1, -1, 1), weight, flat).view(
            batch, -1, height, width
        )
