"""Means of clips that are padded with zeros, most of them by none."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        there = (x != 0).any(-1, keepdim=True).to(x.dtype)
        return (x * there).sum(1) / there.sum(1).clamp(min=1.0)


def get_inputs():
    x = torch.randn(64, 256, 64) + 0.5
    length = torch.randint(32, 2048, (64,)).clamp(max=256)
    return [x * (torch.arange(256)[None, :, None] < length[:, None, None])]


def get_init_inputs():
    return []
