"""Sources that several tests share."""

from __future__ import annotations

TASK = '''\
import torch
import torch.nn as nn


class Model(nn.Module):
    """Adds, then squashes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0

    def forward(self, a, b):
        # the sum first
        c = a + b

        d = torch.relu(c)
        return d * self.scale


def get_inputs():
    return [torch.rand(8, 8), torch.rand(8, 8)]


def get_init_inputs():
    return []
'''

KERNEL = '''\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

torch::Tensor fused(torch::Tensor a, torch::Tensor b) {
    auto out = torch::empty_like(a);
    for (int64_t i = 0; i < a.numel(); ++i) {
        // one at a time
        out.data_ptr<float>()[i] = a.data_ptr<float>()[i] + b.data_ptr<float>()[i];
    }
    return out;
}
"""
fused = load_inline("fused", cpp_sources=SOURCE, functions=["fused"])


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0

    def forward(self, a, b):
        return torch.relu(fused.fused(a, b)) * self.scale
'''


def mark(source: str, first: str, last: str, *comments: str, begin: str = "", end: str = "") -> str:
    """The source with anchors around the lines that contain ``first`` and ``last``."""
    lines = source.split("\n")
    start = next(row for row, line in enumerate(lines) if first in line)
    stop = next(row for row in range(start, len(lines)) if last in lines[row])
    before = [begin or "# <<<IMPROVE BEGIN>>>", *comments]
    after = [end or "# <<<IMPROVE END>>>"]
    return "\n".join(lines[:start] + before + lines[start : stop + 1] + after + lines[stop + 1 :])
