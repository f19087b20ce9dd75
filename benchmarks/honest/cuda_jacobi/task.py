"""Six steps of Jacobi's iteration, zero outside."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        for _ in range(6):
            p = torch.nn.functional.pad(x, (1, 1, 1, 1))
            x = 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
        return x


def get_inputs():
    return [torch.randn(640, 640)]


def get_init_inputs():
    return []
