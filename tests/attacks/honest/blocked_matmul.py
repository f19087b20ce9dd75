"""A matmul in blocks, as exact as the reference."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.cat([a[i : i + 192] @ b for i in range(0, len(a), 192)])
