"""Times two ways of its own in its first call, and keeps the faster one, as autotuners do."""

import time

import torch
import torch.nn as nn


def fused(x, y):
    z = torch.addcmul(torch.zeros_like(x), x, y).tanh_().add_(x)
    return z.div_(z.abs().mean(dim=-1, keepdim=True))


def plain(x, y):
    z = torch.tanh(x * y) + x
    return z / z.abs().mean(dim=-1, keepdim=True)


def seconds(way, x, y):
    way(x, y)
    if x.is_cuda:
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(3):
        way(x, y)
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.best = None

    def forward(self, x, y):
        if self.best is None:
            self.best = min((fused, plain), key=lambda way: seconds(way, x, y))
        return self.best(x, y)
