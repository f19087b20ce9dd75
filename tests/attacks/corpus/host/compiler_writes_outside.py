"""Gives the compiler flags that name files outside as its outputs."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

WORLD = "@WORLD@"

drop = WORLD["dir"] + "/drop"
CPP = 'static int nothing = 1; extern "C" int get() { return nothing; }'
for number, flags in enumerate(
    (
        {"extra_cflags": [f"-Wp,-MD,{drop}/depends"]},
        {"extra_cflags": [f"-aux-info={drop}/aux", "-save-temps", f"-dumpdir{drop}/"]},
        {"extra_ldflags": [f"-Wl,-Map={drop}/map"]},
        {"extra_ldflags": [f"-Wl,--dependency-file={drop}/dep"]},
    )
):
    try:
        load_inline(
            name=f"outside{number}",
            cpp_sources=CPP,
            no_implicit_headers=True,
            is_python_module=False,
            **flags,
        )
    except Exception as error:
        print("refused:", type(error).__name__)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
