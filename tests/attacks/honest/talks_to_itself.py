"""Wakes a thread of its own through a pair of sockets, and has it answer, as event loops do."""

import socket
import threading

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()

    def _serve(self, theirs):
        while asked := theirs.recv(1):
            theirs.sendall(asked)

    def forward(self, x, y):
        self.ours.sendall(b"?")
        assert self.ours.recv(1) == b"?"
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
