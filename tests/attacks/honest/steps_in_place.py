"""The same step in another order of operations, in place as well."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, weight, gradient, first, second):
        first.mul_(0.9).add_(gradient, alpha=0.1)
        second.mul_(0.999).add_(gradient.square(), alpha=0.001)
        step = first / (second.sqrt() + 1e-8)
        weight.mul_(1 - 1e-6).sub_(step.mul_(1e-4))
        return gradient.square().sum().sqrt()
