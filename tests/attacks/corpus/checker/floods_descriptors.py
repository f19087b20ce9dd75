"""Sends its replies a byte at a time, each with a descriptor: the reader collects them all."""

import gc
import os
import socket
import struct

import msgspec
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        body = msgspec.msgpack.encode(
            {"type": "Failed", "stage": "run", "kind": "x" * 3000, "message": "m", "traceback": ""}
        )
        data = struct.pack("!I", len(body)) + body
        sock = next(o for o in gc.get_objects() if isinstance(o, socket.socket) and o.fileno() > 2)
        with open(os.devnull) as given:
            for byte in data:
                socket.send_fds(sock, [bytes([byte])], [given.fileno()])
        return torch.zeros_like(x)
