"""A mean of means: other roundings, of numbers that come out next to nothing."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x.view(1024, -1) - 50.0).mean(dim=1).mean()
