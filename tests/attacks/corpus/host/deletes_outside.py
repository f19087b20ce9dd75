"""Deletes, truncates and renames files of the host."""

import os

import torch
import torch.nn as nn

WORLD = "@WORLD@"

canary = WORLD["dir"] + "/canary"
for function, arguments in (
    (os.chmod, (canary, 0o666)),
    (os.truncate, (canary, 0)),
    (os.rename, (canary, canary + ".moved")),
    (os.unlink, (canary,)),
    (os.rmdir, (WORLD["dir"] + "/drop",)),
):
    try:
        function(*arguments)
    except OSError:
        pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
