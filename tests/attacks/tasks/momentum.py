"""Changes two of its inputs, which is what it is for."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, weight, velocity, gradient):
        velocity.mul_(0.9).add_(gradient)
        weight.sub_(velocity, alpha=0.01)
        return gradient.square().sum(dim=-1)


def get_inputs():
    return [torch.randn(1024, 1024), torch.randn(1024, 1024), torch.randn(1024, 1024)]


def get_init_inputs():
    return []
