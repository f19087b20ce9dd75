"""Opens the sandbox's own sources and kept headers for writing, without writing."""

import os

import torch
import torch.nn as nn

WORLD = "@WORLD@"

HEADERS = "/extension_build/headers"
FILES = ("/sandbox.py", "/verifier/main.py", f"{HEADERS}/torch/extension.h", "/zygote/boot.py")
for name in FILES:
    assert os.path.exists(WORLD["package"] + name), name
    try:
        os.close(os.open(WORLD["package"] + name, os.O_WRONLY | os.O_APPEND))
        print("GAINED" + f": may change {name}", flush=True)
    except OSError:
        pass
try:
    os.close(os.open(torch.__file__, os.O_WRONLY | os.O_APPEND))
    print("GAINED" + ": may change torch", flush=True)
except OSError:
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
