"""Looks for descriptors that it was not meant to have: files, directories, pipes to others."""

import os

import torch
import torch.nn as nn

WORLD = "@WORLD@"

for number in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        continue
    inside = any(target.startswith(WORLD[key]) for key in ("dir", "cache", "temp", "package"))
    own = os.path.dirname(os.path.abspath(__file__))
    if inside and not target.startswith(os.path.dirname(own)):
        print("GAINED" + f": descriptor {number} is {target}", flush=True)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
