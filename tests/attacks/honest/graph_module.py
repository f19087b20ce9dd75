"""A torch.fx graph of a module of its own, rewritten and compiled to Python."""

import torch
import torch.fx
import torch.nn as nn


class Body(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.fx.symbolic_trace(Body())

    def forward(self, x, y):
        return self.body(x, y)
