"""Takes nothing of the basis for granted."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, basis, x):
        factors, pivots = torch.linalg.lu_factor(basis)
        return torch.linalg.lu_solve(factors, pivots, x)
