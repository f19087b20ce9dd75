"""The right tensors in another structure."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, index):
        rows = x[index]
        return {"rows": [(rows, index + 1)], "sums": (x.sum(-1), x.sum(0)), "positive": x > 0}
