"""Computes each of its many outputs from a slice of its own: no two are parts of one tensor."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return [torch.relu(part) for part in x.unbind(0)]
