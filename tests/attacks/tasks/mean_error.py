"""A mean of so many numbers that a part of them has the same, in bfloat16."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return nn.functional.mse_loss(x, y)


def get_inputs():
    return [torch.randn(1024, 2048).bfloat16(), torch.randn(1024, 2048).bfloat16()]


def get_init_inputs():
    return []
