"""Returns what was made for another call, too, and is no part of the model."""

from functools import cache

import torch
import torch.nn as nn


@cache
def mask(length, device):
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class Model(nn.Module):
    def forward(self, x):
        seen = mask(x.shape[-1], x.device)
        return x.masked_fill(~seen, float("-inf")).softmax(-1), seen


def get_inputs():
    return [torch.randn(8, 256, 256)]


def get_init_inputs():
    return []
