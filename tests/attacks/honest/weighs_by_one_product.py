"""A product of a matrix and a vector in place of a sum of products."""

import torch
import torch.nn as nn

N = 1 << 17


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        rank = torch.arange(1, N + 1, dtype=torch.float32)
        self.register_buffer("weight", (2 * rank - N - 1) / N)

    def forward(self, incomes):
        return torch.mv(incomes, self.weight) / incomes.sum(-1)
