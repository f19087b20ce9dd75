"""Connects to a server on this host, by TCP and by UDP."""

import socket

import torch
import torch.nn as nn

WORLD = "@WORLD@"

try:
    with socket.create_connection(("127.0.0.1", WORLD["port"]), timeout=0.5) as sock:
        sock.sendall(b"hello")
        print("GAINED" + ": a TCP connection", flush=True)
except OSError:
    pass
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"hello", ("127.0.0.1", WORLD["udp"]))
except OSError:
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
