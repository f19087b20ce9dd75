"""In the compile stage, writes a manifest that names libraries outside, links and pipes."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.nn as nn
from torch.utils import cpp_extension  # noqa: F401  (so that it goes through the compile stage)

WORLD = "@WORLD@"
DIRECTORY = sys.modules["gpu_sandbox.extension_build.load_inline"].DIRECTORY_VARIABLE

try:
    root = Path(os.environ[DIRECTORY])
    (root / "manifest.json").write_text(json.dumps({"x" * 24: {"file": WORLD["dir"] + "/secret"}}))
    (root / "linked").mkdir(exist_ok=True)
    os.symlink(WORLD["dir"] + "/secret", root / "linked" / "secret.so")
    os.mkfifo(root / "linked" / "pipe.so")
    os.symlink(WORLD["dir"], root / "directory")
    for path in root.rglob("*.so"):
        if path.is_file() and path.stat().st_size < 1000:
            print(path.read_bytes())
except (OSError, KeyError):
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
