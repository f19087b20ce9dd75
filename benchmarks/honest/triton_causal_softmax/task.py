"""Softmax of causally masked scores."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, positions):
        super().__init__()
        mask = torch.ones(positions, positions, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, scores):
        return torch.softmax(scores.masked_fill(self.mask, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(64, 256, 256)]


def get_init_inputs():
    return [256]
