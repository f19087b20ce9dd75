"""Imports what may be missing, and does without it."""

import torch
import torch.nn as nn

try:
    import no_such_library_at_all
except ImportError:
    no_such_library_at_all = None


class ModelNew(nn.Module):
    def forward(self, x, y):
        if no_such_library_at_all is None:
            z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
