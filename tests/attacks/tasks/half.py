"""fp16 in and out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x * y)


def get_inputs():
    return [torch.randn(512, 1024).half(), torch.randn(512, 1024).half()]


def get_init_inputs():
    return []
