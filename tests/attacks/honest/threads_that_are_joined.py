"""Splits the rows between threads and waits for them."""

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn

POOL = ThreadPoolExecutor(2)


def part(x, y, out):
    with torch.no_grad():
        z = torch.tanh(x * y) + x
        torch.div(z, z.abs().mean(dim=-1, keepdim=True), out=out)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), len(x) // 2
        jobs = [POOL.submit(part, x[s], y[s], out[s]) for s in (slice(0, n), slice(n, None))]
        for job in jobs:
            job.result()
        return out
