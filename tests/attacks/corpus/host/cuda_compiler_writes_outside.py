"""Gives nvcc flags that name files outside, and another compiler for its host steps."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

WORLD = "@WORLD@"

drop = WORLD["dir"] + "/drop"
for number, flags in enumerate(
    (
        ["-Xcompiler", f"-Wp,-MD,{drop}/depends"],
        ["--keep", "--keep-dir", drop],
        ["-Xptxas", f"--output-file={drop}/cubin"],
        ["--options-file", drop + "/../secret"],
    )
):
    try:
        load_inline(
            name=f"outside{number}",
            cpp_sources="int get();",
            cuda_sources="int get() { return 1; }",
            functions=["get"],
            extra_cuda_cflags=flags,
        )
    except Exception as error:
        print("refused:", type(error).__name__)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
