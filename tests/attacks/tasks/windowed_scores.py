"""Scores of an attention to what was just before: what is masked is a large number."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, length):
        super().__init__()
        near = torch.ones(length, length, dtype=torch.bool).tril().triu(-64)
        self.register_buffer("far", ~near)

    def forward(self, q, k):
        scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
        return scores.masked_fill(self.far, -1e9)


def get_inputs():
    return [torch.randn(8, 256, 256), torch.randn(8, 256, 256)]


def get_init_inputs():
    return [256]
