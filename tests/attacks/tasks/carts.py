"""What some carts cost, and how many of them too much: a plain number. A sum of cents that is the
limit lies beside it by rounding."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, prices):
        costs = prices.sum(1)
        return costs, int((costs > 4.5).sum())


def get_inputs():
    return [torch.randint(0, 100, (4096, 8)) / 100]


def get_init_inputs():
    return []
