"""Asks whether it may signal its parent and its relatives (signal 0), and sends one that the
test notes."""

import os
import signal

import torch
import torch.nn as nn

WORLD = "@WORLD@"
# @include family

for pid in family():
    try:
        os.kill(pid, 0)
        print("GAINED" + ": may signal a relative", flush=True)
        if pid == WORLD["pid"]:
            os.kill(pid, signal.SIGUSR2)
    except OSError:
        pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
