"""Tries to shrink, seal and punch the shared memory under the verifier's feet."""

import ctypes
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, y):
        self.calls += 1
        z = torch.tanh(x * y) + x
        out = z / z.abs().mean(dim=-1, keepdim=True)
        if self.calls == 3:
            libc = ctypes.CDLL(None, use_errno=True)
            with open("/proc/self/maps") as maps:
                regions = [line.split()[0] for line in maps if "memfd:" in line]
            for region in regions:
                first, last = (int(v, 16) for v in region.split("-"))
                libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), 9)
                for directory in ("/proc/self/map_files",):
                    try:
                        handle = os.open(f"{directory}/{region}", os.O_RDWR)
                        os.ftruncate(handle, 0)
                        print("GAINED" + ": shrank the arena", flush=True)
                    except OSError:
                        pass
        return out
