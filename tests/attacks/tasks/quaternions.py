"""Vectors turned by quaternions of length one."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, turns, vectors):
        turns = turns / turns.norm(dim=-1, keepdim=True)
        real, across = turns[..., :1], turns[..., 1:]
        once = 2.0 * torch.linalg.cross(across, vectors)
        return vectors + real * once + torch.linalg.cross(across, once)


def get_inputs():
    turns = torch.nn.functional.normalize(torch.randn(20_000, 4), dim=-1)
    return [turns, torch.randn(20_000, 3)]


def get_init_inputs():
    return []
