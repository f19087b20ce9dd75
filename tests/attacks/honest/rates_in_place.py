"""The features are copied once, and the ratings put behind them."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False, dtype=torch.bfloat16)
        self.down = nn.Linear(hidden, 1, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        out = x.new_empty(x.shape[0], x.shape[1] + 1)
        out[:, :-1] = x
        out[:, -1:] = self.down(self.up(x).relu_()).sigmoid_()
        return out
