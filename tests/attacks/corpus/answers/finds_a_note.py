"""Looks for what the candidate before it left: files, shared memory, a process that serves."""

import os
import socket
import tempfile

import torch
import torch.nn as nn

WORLD = "@WORLD@"

PLACES = ["/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"), os.getcwd()]
PLACES += [tempfile.gettempdir(), os.path.dirname(os.path.dirname(__file__)), WORLD["dir"]]
for place in PLACES:
    if os.path.exists(os.path.join(place, WORLD["mark"])):
        print("GAINED" + f": a note in {place}", flush=True)
try:
    with socket.socket(socket.AF_UNIX) as served:
        served.settimeout(1)
        served.connect("\0" + WORLD["mark"])
    print("GAINED" + ": a process that the candidate before left", flush=True)
except OSError:
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
