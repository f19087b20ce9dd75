"""A constant that takes the compiler an hour to work out."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = """
constexpr long spin(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i ^ n; return s; }
extern "C" long get() { constexpr long v = spin(1L << 40); return v; }"""
EXT = load_inline(
    name="spin",
    cpp_sources=CPP,
    no_implicit_headers=True,
    is_python_module=False,
    extra_cflags=[
        "-fconstexpr-loop-limit=2147483647",
        "-fconstexpr-ops-limit=9223372036854775807",
    ],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
