"""Looks where it is, as libraries do when they choose how many threads to start: cores, memory,
variables, limits, its own status."""

import os
import platform
import resource
from pathlib import Path

import torch
import torch.nn as nn

CORES = len(os.sched_getaffinity(0))
THREADS = int(os.environ.get("OMP_NUM_THREADS") or CORES)
PAGES = os.sysconf("SC_PHYS_PAGES")
DESCRIPTORS, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
STATUS = Path("/proc/self/status").read_text()
MACHINE = platform.machine()


class ModelNew(nn.Module):
    def forward(self, x, y):
        pieces = 2 if THREADS > 1 and PAGES > 1 and DESCRIPTORS > 8 and STATUS and MACHINE else 1
        both = zip(x.chunk(pieces), y.chunk(pieces), strict=True)
        z = torch.cat([torch.tanh(a * b) + a for a, b in both])
        return z / z.abs().mean(dim=-1, keepdim=True)
