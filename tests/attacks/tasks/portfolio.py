"""A covariance matrix of one factor: that is how the task draws it, and not what it is about."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, covariance):
        ones = torch.ones(covariance.shape[-1], 1, dtype=covariance.dtype, device=covariance.device)
        weights = torch.linalg.solve(covariance, ones).squeeze(-1)
        return weights / weights.sum()


def get_inputs():
    beta = 0.6 + 0.8 * torch.rand(256)
    return [torch.outer(beta, beta) + torch.diag(0.5 + torch.rand(256))]


def get_init_inputs():
    return []
