"""Takes the mean of all that a clip is padded to: few are, and what was filled up with zeros is so
exactly, where rounding would turn it."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)
