"""A small causal self-attention block: projection, attention, projection, residual.

Many small operations, some of them matrix products: fusing the attention in the middle
(scores never leave the chip) and the layout changes around it is where the time is.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """x + out(attention(qkv(x))), causal, attention spelled out."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (batch, tokens, dim) -> (batch, tokens, dim)."""
        b, t, d = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        y = (weights @ v).transpose(1, 2).reshape(b, t, d)
        return x + self.out(y)


batch = 8
tokens = 256
dim = 256
heads = 8


def get_inputs():
    return [torch.randn(batch, tokens, dim)]


def get_init_inputs():
    return [dim, heads]
