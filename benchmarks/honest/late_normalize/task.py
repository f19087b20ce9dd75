"""Rows of length one."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.normalize(x, dim=1)


def get_inputs():
    return [torch.randn(4096, 640)]


def get_init_inputs():
    return []
