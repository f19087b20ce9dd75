"""Torch's own attention in place of three operations."""

import torch
import torch.nn as nn

KIND = "torch"


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).contiguous()
