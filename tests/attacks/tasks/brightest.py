"""A maximum of so many numbers that it is all but the same in each draw."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.amax(dim=(1, 2))


def get_inputs():
    return [torch.rand(16, 512, 256)]


def get_init_inputs():
    return []
