"""A leapfrog step of bodies of equal mass, softened, in place: small beside where they are."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, step, softening):
        super().__init__()
        self.step, self.least = step, softening**2

    def forward(self, x, v):
        apart = x.unsqueeze(0) - x.unsqueeze(1)
        square = apart.square().sum(-1) + self.least
        force = (apart * (square * square.sqrt()).reciprocal().unsqueeze(-1)).mean(1)
        v.add_(force, alpha=self.step)
        x.add_(v, alpha=self.step)
        return x


def get_inputs():
    return [torch.randn(512, 3), torch.randn(512, 3)]


def get_init_inputs():
    return [2e-5, 0.2]
