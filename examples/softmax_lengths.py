"""Softmax over rows of several lengths: a candidate has to be right, and is timed, on each."""

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


# A kernel that was written for these two lengths alone is found out: prompts don't show it.
def get_hidden_input_sets():
    return {"odd": lambda: [torch.randn(257, 1021)]}
