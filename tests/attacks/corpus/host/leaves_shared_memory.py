"""Leaves System V shared memory and a file in /dev/shm, which outlive their maker."""

import ctypes

import torch
import torch.nn as nn

WORLD = "@WORLD@"

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmget(WORLD["key"], 1 << 20, 0o1600 | 0o2000)
try:
    with open("/dev/shm/" + WORLD["mark"], "w") as file:
        file.write("x")
except OSError:
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
