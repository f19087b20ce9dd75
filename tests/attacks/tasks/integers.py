"""Integers in and out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 3 + (x >> 2)


def get_inputs():
    return [torch.randint(-1000, 1000, (512, 1024))]


def get_init_inputs():
    return []
