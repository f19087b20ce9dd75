"""A dict with lists where the reference has tuples."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, index):
        rows = x.index_select(0, index)
        return {"rows": [rows, index + 1], "sums": (x.sum(-1), x.sum(0)), "positive": x.gt(0)}
