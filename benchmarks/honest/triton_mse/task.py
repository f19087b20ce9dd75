"""Mean squared error."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.mse_loss(x, y)


def get_inputs():
    return [torch.randn(2048, 2000), torch.randn(2048, 2000)]


def get_init_inputs():
    return []
