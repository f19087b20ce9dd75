"""A step of many paths, within bounds; an interval ends after it begins."""

import torch
import torch.nn as nn

ROWS, D = 8192, 64


class Model(nn.Module):
    def forward(self, x, noise, low, high, begin, end):
        return torch.clamp(x + noise * torch.sqrt(end - begin), low, high)


def get_inputs():
    x, noise = torch.rand(ROWS, D), torch.rand(ROWS, D) - 0.5
    low, high = -1.0 - torch.rand(ROWS, D), 2.0 + torch.rand(ROWS, D)
    begin = torch.rand(ROWS, 1)
    return [x, noise, low, high, begin, begin + 0.1 * torch.rand(ROWS, 1)]


def get_init_inputs():
    return []
