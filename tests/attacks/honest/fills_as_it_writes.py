"""Both parts are written into one output."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden, scores):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, scores)

    def forward(self, x):
        out = x.new_empty(x.shape[0], x.shape[1] + self.down.out_features)
        out[:, : x.shape[1]] = x
        out[:, x.shape[1] :] = self.down(self.up(x).tanh_())
        return out.fill_diagonal_(-1e9)
