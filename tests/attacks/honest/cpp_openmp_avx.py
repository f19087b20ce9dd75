"""Inline C++ with OpenMP and AVX2, chosen at run time; built in the constructor."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = """
#include <torch/extension.h>
#include <immintrin.h>

__attribute__((target("avx2"))) static void wide(const float* a, const float* b, float* c, long n) {
  long i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(c + i, _mm256_mul_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  for (; i < n; ++i) c[i] = a[i] * b[i];
}

torch::Tensor product(torch::Tensor x, torch::Tensor y) {
  auto out = torch::empty_like(x);
  long rows = x.size(0), columns = x.size(1);
  const float *a = x.data_ptr<float>(), *b = y.data_ptr<float>();
  float* c = out.data_ptr<float>();
  bool avx = __builtin_cpu_supports("avx2");
#pragma omp parallel for
  for (long r = 0; r < rows; ++r) {
    if (avx) wide(a + r * columns, b + r * columns, c + r * columns, columns);
    else for (long i = r * columns; i < (r + 1) * columns; ++i) c[i] = a[i] * b[i];
  }
  return out;
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ext = load_inline(
            name="product",
            cpp_sources=CPP,
            functions=["product"],
            extra_cflags=["-O3", "-fopenmp"],
            extra_ldflags=["-fopenmp"],
        )

    def forward(self, x, y):
        z = self.ext.product(x, y).tanh_().add_(x)
        return z.div_(z.abs().mean(dim=-1, keepdim=True))
