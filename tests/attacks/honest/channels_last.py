"""channels_last in and out."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x, memory_format=torch.channels_last)
        return torch.tanh(x, out=out)
