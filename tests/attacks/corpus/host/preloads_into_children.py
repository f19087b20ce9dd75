"""Sets LD_PRELOAD, PYTHONPATH and CC for whatever is started after it in its environment."""

import os
import subprocess
import sys

import torch
import torch.nn as nn

WORLD = "@WORLD@"

os.environ["LD_PRELOAD"] = "/nonexistent/" + WORLD["mark"] + ".so"
os.environ["PYTHONPATH"] = os.getcwd()
os.environ["CXX"] = os.environ["CC"] = "/bin/false"
os.environ["TORCH_EXTENSIONS_DIR"] = WORLD["dir"] + "/drop"
try:
    subprocess.run([sys.executable, "-S", "-c", ""], capture_output=True, timeout=5, check=False)
except (OSError, subprocess.SubprocessError):
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
