"""Opens a file that only the sandbox's own user may read."""

import torch
import torch.nn as nn

WORLD = "@WORLD@"

try:
    with open(WORLD["dir"] + "/secret") as file:
        print("GAINED" + ": a file of the host:", file.read(), flush=True)
except OSError:
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
