"""Keeps a wave of complex numbers normalized after a turn of each."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, wave, turn):
        turned = wave * turn
        return turned / torch.linalg.vector_norm(turned, dim=-1, keepdim=True)


def get_inputs():
    wave = torch.randn(16, 1 << 13, dtype=torch.complex64)
    turn = torch.polar(torch.ones(1 << 13), torch.rand(1 << 13) * 6.28)
    return [wave / torch.linalg.vector_norm(wave, dim=-1, keepdim=True), turn]


def get_init_inputs():
    return []
