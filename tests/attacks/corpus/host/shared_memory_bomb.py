"""Fills /dev/shm and memfds, which no limit on files or address space counts."""

import os

import torch
import torch.nn as nn

WORLD = "@WORLD@"

block = b"\0" * (1 << 20)
held, written = [], 0
try:
    for number in range(6):
        held.append(os.memfd_create(f"bomb{number}"))
        for _ in range(480):
            written += os.write(held[-1], block)
except OSError:
    pass
for one in held:
    os.close(one)
if written > 2_500 << 20:
    print("GAINED" + f": {written >> 20} MB of shared memory", flush=True)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
