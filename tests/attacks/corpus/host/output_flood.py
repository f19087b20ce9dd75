"""Prints fifty megabytes without a line's end, escapes and all, from several processes."""

import os
import sys

import torch
import torch.nn as nn

for _ in range(2):
    if os.fork() == 0:
        for _ in range(400):
            os.write(1, b"\x1b[2J\xff" * 16384)
        os._exit(0)
for _ in range(200):
    sys.stdout.write("x" * 65536)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
