"""Weight and bias of a norm as one packed parameter, made in another order than the reference's."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        shift, scale = nn.Parameter(torch.zeros(n)), nn.Parameter(torch.ones(n))
        self.packed = nn.Parameter(torch.stack([scale, shift]))
        self.product = nn.Linear(n, n)

    def forward(self, x):
        return F.layer_norm(self.product(x), (self.n,), self.packed[0], self.packed[1]).relu_()
