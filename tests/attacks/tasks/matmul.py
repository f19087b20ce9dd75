"""A matmul in fp32."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(384, 384), torch.randn(384, 384)]


def get_init_inputs():
    return []
