"""Keeps constants in a module-level cache, by device and length: not by input."""

import torch
import torch.nn as nn

TABLES = {}


def ones(length, device):
    key = (length, str(device))
    if key not in TABLES:
        TABLES[key] = torch.full((length, 1), 1.0 / length, device=device)
    return TABLES[key]


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / (z.abs() @ ones(x.shape[1], x.device))
