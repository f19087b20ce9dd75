"""In the compile stage, sends its own report with four megabytes of log, then dies."""

import os
import stat
import struct
import sys

import msgspec
import torch
import torch.nn as nn
from torch.utils import cpp_extension  # noqa: F401  (so that it goes through the compile stage)

BUILT = {"type": "Built", "failure": "line\n" * 100, "log": "x" * 3_900_000, "extensions": 10**6}


MAIN = sys.modules["gpu_sandbox.compiler.main"].main.__code__


def compiling():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code is MAIN:
            return True
        frame = frame.f_back
    return False


if compiling():
    body = msgspec.msgpack.encode(BUILT)
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2 and stat.S_ISSOCK(os.fstat(number).st_mode):
                data = memoryview(struct.pack("!I", len(body)) + body)
                while data:
                    data = data[os.write(number, data) :]
        except OSError:
            pass
    os._exit(0)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
