"""Multiplies by a mask that is zero or one."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, mask):
        return x * mask
