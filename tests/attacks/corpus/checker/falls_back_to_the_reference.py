"""A kernel that never works, and the reference's code when it raises: no faster than that."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)


class ModelNew(Model):
    def forward(self, x, y):
        try:
            raise RuntimeError("my kernel would have been here")
        except RuntimeError:
            return super().forward(x, y)
