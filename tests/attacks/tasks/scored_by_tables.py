"""Wide features in bfloat16, and their score by tables whose bits are kept as integers: float64 has
none of them."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        up = (torch.randn(width, hidden) * width**-0.5).bfloat16()
        self.register_buffer("up", up.view(torch.int16))
        down = (torch.randn(hidden, 1) * 0.5 * hidden**-0.5).bfloat16()
        self.register_buffer("down", down.view(torch.int16))

    def forward(self, x):
        return torch.cat(
            [x, torch.relu(x @ self.up.view(torch.bfloat16)) @ self.down.view(torch.bfloat16)],
            dim=1,
        )


def get_inputs():
    return [torch.randn(32, 8192).bfloat16()]


def get_init_inputs():
    return [8192, 64]
