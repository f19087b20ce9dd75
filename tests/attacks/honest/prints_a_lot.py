"""Prints a megabyte before it starts, and a line in each of its first calls."""

import torch
import torch.nn as nn

for number in range(10_000):
    print(number, "x" * 100)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, y):
        self.calls += 1
        if self.calls < 20:
            print("call", self.calls, tuple(x.shape))
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
