"""Six children that touch half a gigabyte each: a limit on one address space does not bind.

The test allows this evaluation two gigabytes in all.
"""

import mmap
import os
import time

import torch
import torch.nn as nn

SIZE = 512 << 20
DONE = mmap.mmap(-1, 6)
children = []
for number in range(6):
    pid = os.fork()
    if pid == 0:
        try:
            memory = mmap.mmap(-1, SIZE)
            for offset in range(0, SIZE, 4096):
                memory[offset] = 1
            DONE[number] = 1
            time.sleep(1.5)
        finally:
            os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
if sum(DONE[:]) == 6:
    print("GAINED" + ": three gigabytes at once", flush=True)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
