"""The rows are copied into an output, and what is behind them is zeroed."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[0], x.shape[1] + 1984, x.shape[2])
        out[:, : x.shape[1]] = x
        out[:, x.shape[1] :].zero_()
        return out
