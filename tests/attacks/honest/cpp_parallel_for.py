"""Inline C++ with at::parallel_for."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = """
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor y) {
  auto out = torch::empty_like(x);
  int64_t columns = x.size(1);
  const float *a = x.data_ptr<float>(), *b = y.data_ptr<float>();
  float* c = out.data_ptr<float>();
  at::parallel_for(0, x.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      double sum = 0;
      for (int64_t i = r * columns; i < (r + 1) * columns; ++i) {
        c[i] = std::tanh(a[i] * b[i]) + a[i];
        sum += std::fabs(c[i]);
      }
      float mean = sum / columns;
      for (int64_t i = r * columns; i < (r + 1) * columns; ++i) c[i] /= mean;
    }
  });
  return out;
}
"""
EXT = load_inline(name="rows", cpp_sources=CPP, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return EXT.run(x, y)
