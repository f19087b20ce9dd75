"""Includes a file of the host as source: the compiler's complaint quotes it."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

WORLD = "@WORLD@"

CPP = f'#include "{WORLD["dir"]}/secret"\n'
EXT = load_inline(name="quoted", cpp_sources=CPP, no_implicit_headers=True)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
