"""An elementwise kernel of torch's jiterator, compiled at the first call."""

import torch
import torch.nn as nn

KIND = "jiterator"


CODE = """
template <typename T>
T swish_gate(T x, T y) {
  return x / (T(1) + exp(-x)) * y;
}
"""
swish_gate = torch.cuda.jiterator._create_jit_fn(CODE)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return swish_gate(x, y)
