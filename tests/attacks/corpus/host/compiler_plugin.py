"""Has the compiler run code of ours: a plugin by flag, a wrapper, another program for a step."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

WORLD = "@WORLD@"

CPP = '#pragma GCC plugin "nothing"\nextern "C" int get() { return 1; }'
command = f"touch {WORLD['dir']}/drop/wrapper"
for number, flags in enumerate(
    (["-wrapper", f"/bin/sh,-c,{command}"], ["-fplugin=" + WORLD["dir"] + "/drop/plugin.so"])
):
    try:
        load_inline(
            name=f"plugin{number}",
            cpp_sources=CPP,
            no_implicit_headers=True,
            is_python_module=False,
            extra_cflags=flags,
        )
    except Exception as error:
        print("refused:", type(error).__name__)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
