"""Reads its own source, as Triton and inspect do."""

import inspect

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)


with open(__file__) as file:
    assert "ModelNew" in file.read()
assert "tanh" in inspect.getsource(ModelNew.forward)
