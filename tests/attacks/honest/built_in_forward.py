"""Builds its extension in the first forward."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = """
#include <torch/extension.h>

torch::Tensor divide(torch::Tensor z, torch::Tensor mean) { return z / mean; }
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ext = None

    def forward(self, x, y):
        if self.ext is None:
            self.ext = load_inline(name="lazy", cpp_sources=CPP, functions=["divide"])
        z = torch.tanh(x * y) + x
        return self.ext.divide(z, z.abs().mean(dim=-1, keepdim=True))
