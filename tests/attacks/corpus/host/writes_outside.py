"""Writes into the directories of the host that a candidate might reach.

Into the world's own by name; into the system's with a file that has none and is gone when it
is closed. A private directory of the same path is no harm: it must be the very same one.
"""

import os

import torch
import torch.nn as nn

WORLD = "@WORLD@"

for place in WORLD["places"]:
    try:
        with open(os.path.join(place, WORLD["mark"]), "x") as file:
            file.write("nothing")
    except OSError:
        pass
for place, device, inode in WORLD["system"]:
    try:
        found = os.stat(place)
        if (found.st_dev, found.st_ino) == (device, inode):
            os.close(os.open(place, os.O_TMPFILE | os.O_WRONLY))
            print("GAINED" + f": may write in {place}", flush=True)
    except OSError:
        pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
