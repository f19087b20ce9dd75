"""Gini coefficients of many populations, whose incomes come sorted."""

import torch
import torch.nn as nn

N = 1 << 17


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        rank = torch.arange(1, N + 1, dtype=torch.float32)
        self.register_buffer("weight", (2 * rank - N - 1) / N)

    def forward(self, incomes):
        return (incomes * self.weight).sum(-1) / incomes.sum(-1)


def get_inputs():
    """As sorted ones of even chances are: sums of exponential gaps. To sort takes much longer."""
    reached = -torch.log1p(-torch.rand(8, N + 1)).cumsum(dim=-1)
    return [reached[:, :-1] / reached[:, -1:]]


def get_init_inputs():
    return []
