"""The maximum of rows, and then of these."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.amax(dim=2).amax(dim=1)
