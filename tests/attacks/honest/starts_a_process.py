"""Starts a helper process, as build tools do, and waits for it."""

import subprocess
import sys

import torch
import torch.nn as nn

SAID = subprocess.run([sys.executable, "-S", "-c", "print(2)"], capture_output=True, check=True)


class ModelNew(nn.Module):
    def forward(self, x, y):
        assert SAID.stdout.strip() == b"2"
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
