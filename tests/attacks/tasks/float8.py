"""Rows to eight bits in floating point, and back: where two are as near, rounding decides."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 448.0
        return (x / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale


def get_inputs():
    return [torch.randn(512, 512)]


def get_init_inputs():
    return []
