"""Softmax over rows of several lengths: a candidate has to be right, and is timed, on each.

A kernel for the lengths in ``get_input_sets()`` alone is found out: there are others.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


def get_init_inputs():
    return []


def get_input_sets():
    return {
        "short": lambda: [torch.randn(4096, 64)],
        "long": lambda: [torch.randn(64, 8192)],
    }


def get_hidden_input_sets():
    return {"odd": lambda: [torch.randn(257, 1021)]}
