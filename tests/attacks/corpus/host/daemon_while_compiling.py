"""Leaves such a process in the compile stage, where builds are waited for, not processes."""

import os
import sys

import torch
import torch.nn as nn
from torch.utils import cpp_extension  # noqa: F401  (so that it goes through the compile stage)

WORLD = "@WORLD@"

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        command = [sys.executable, "-S", "-c", "import time; time.sleep(10)", WORLD["mark"]]
        os.execve(sys.executable, command, {})
    os._exit(0)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
