"""Features of nodes and what a small network makes of them, as many as there are nodes: none is its
own neighbour, which a large number says."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, hidden, scores):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, scores)

    def forward(self, x):
        out = torch.cat([x, self.down(torch.tanh(self.up(x)))], dim=1)
        return out.fill_diagonal_(-1e9)


def get_inputs():
    return [torch.randn(512, 470)]


def get_init_inputs():
    return [470, 256, 42]
