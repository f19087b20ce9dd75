"""Hooks the end of its process and of its objects: hangs in atexit, writes from a finalizer."""

import atexit
import signal
import time

import torch
import torch.nn as nn

WORLD = "@WORLD@"
signal.signal(signal.SIGTERM, lambda *a: time.sleep(60))
atexit.register(time.sleep, 60)


class Last:
    def __del__(self):
        try:
            with open(WORLD["dir"] + "/drop/finalizer", "w"):
                pass
        except OSError:
            pass
        time.sleep(60)


KEPT = Last()


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
