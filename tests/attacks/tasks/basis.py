"""Coordinates in another basis, which is orthonormal as the task draws it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, basis, x):
        return torch.linalg.solve(basis, x)


def get_inputs():
    basis, _ = torch.linalg.qr(torch.randn(384, 384))
    return [basis, torch.randn(384, 48)]


def get_init_inputs():
    return []
