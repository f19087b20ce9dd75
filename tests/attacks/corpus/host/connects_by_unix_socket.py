"""Connects to an abstract socket and to one in the file system."""

import socket

import torch
import torch.nn as nn

WORLD = "@WORLD@"

for address in ("\0" + WORLD["abstract"], WORLD["dir"] + "/socket"):
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(0.5)
            sock.connect(address)
            print("GAINED" + f": a connection to {address!r}", flush=True)
    except OSError:
        pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
