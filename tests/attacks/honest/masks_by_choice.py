"""Adds the noise's logarithm in one step, and chooses where the mask would be filled in."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim, vocabulary):
        super().__init__()
        self.head = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, h, allowed):
        logits = h @ self.head.weight.t()
        noise = torch.rand_like(logits).clamp_(1e-6, 1 - 1e-6).log_().neg_().log_()
        return torch.where(allowed, logits - noise, -1e9)
