"""One output has no elements."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.tanh(), torch.empty(x.shape[0], 0, device=x.device)
