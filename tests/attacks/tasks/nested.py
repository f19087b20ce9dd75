"""A dict with a tuple and a list in it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, index):
        rows = x[index]
        return {"rows": (rows, index + 1), "sums": [x.sum(-1), x.sum(0)], "positive": x > 0}


def get_inputs():
    return [torch.randn(256, 256), torch.randint(0, 256, (64,))]


def get_init_inputs():
    return []
