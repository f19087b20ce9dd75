"""Keeps its running statistics in its inputs, by an operation that counts no version up."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, mean, var):
        return F.batch_norm(x, mean, var, training=True)


def get_inputs():
    return [torch.randn(32, 16, 32, 32), torch.randn(16), torch.rand(16) + 0.5]


def get_init_inputs():
    return []
