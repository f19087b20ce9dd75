"""Multiplies by the reciprocal instead of dividing: one element in a million falls elsewhere."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        largest = x.abs().amax(-1, keepdim=True)
        small = (x * (448.0 / largest)).to(torch.float8_e4m3fn)
        return small.float().mul_(largest * (1 / 448.0))
