"""What float64 has otherwise is held to nothing on changed inputs; nothing is too loud on the task's."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, length, limit):
        super().__init__()
        self.register_buffer("later", torch.ones(length, length, dtype=torch.bool).triu(1))
        self.limit = limit

    def forward(self, x, k):
        q = x[..., : k.shape[-1]]
        scores = q @ k.transpose(1, 2) * k.shape[-1] ** -0.5
        return scores.masked_fill(self.later, torch.finfo(scores.dtype).min)
