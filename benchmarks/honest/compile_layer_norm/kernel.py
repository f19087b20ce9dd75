"""Layer norm compiled by Inductor."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "compile"


@torch.compile
def normalized(x, residual, weight, bias):
    return F.layer_norm(x + residual, (x.shape[-1],), weight, bias)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x, residual):
        return normalized(x, residual, self.norm.weight, self.norm.bias)
