"""The same step written otherwise, which rounds otherwise."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, average, weights):
        return average.lerp_(weights, 0.0001)
