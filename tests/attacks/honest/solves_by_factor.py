"""Does not look whether there is a factor."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, hessian, gradient):
        factor, _ = torch.linalg.cholesky_ex(hessian)
        return torch.cholesky_solve(gradient, factor)
