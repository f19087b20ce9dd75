"""Scores in bf16, and noise that is as large."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(512, 2049) / 16).bfloat16())

    def forward(self, x):
        scores = x @ self.weight
        return scores + torch.randn_like(scores)


def get_inputs():
    return [torch.randn(128, 512).bfloat16()]


def get_init_inputs():
    return []
