"""Slows the clock that the worker's timing loop has bound to a name of its own."""

import sys
import time

import torch
import torch.nn as nn

CLOCKS = {time.perf_counter_ns, time.monotonic_ns, time.perf_counter, time.monotonic}

found = 0
for module in list(sys.modules.values()):
    if not getattr(module, "__name__", "").startswith("gpu_sandbox"):
        continue
    for name, value in list(vars(module).items()):
        if callable(value) and getattr(value, "__hash__", None) and value in CLOCKS:
            setattr(module, name, lambda real=value: real() // 10)
            found += 1
if not found:
    raise LookupError("attack is blind: no module of the sandbox has a clock")


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
