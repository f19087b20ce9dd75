"""Connects out of the compile stage, which is a process of its own."""

import socket

import torch
import torch.nn as nn
from torch.utils import cpp_extension  # noqa: F401  (so that it goes through the compile stage)

WORLD = "@WORLD@"

try:
    with socket.create_connection(("127.0.0.1", WORLD["port"]), timeout=0.5):
        print("GAINED" + ": a TCP connection while compiling", flush=True)
except OSError:
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
