"""Newton steps of many small problems: systems that are positive definite."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, hessian, gradient):
        return torch.cholesky_solve(gradient, torch.linalg.cholesky(hessian))


def get_inputs():
    a = torch.randn(48, 128, 128)
    return [a @ a.mT / 128 + torch.eye(128), torch.randn(48, 128, 1)]


def get_init_inputs():
    return []
