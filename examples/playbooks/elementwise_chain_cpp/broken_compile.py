"""Rows on all cores; does not compile: `restrict` is C, not C++."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor forward(torch::Tensor x, torch::Tensor scale, torch::Tensor shift, double cap_arg) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  scale = scale.contiguous();
  shift = shift.contiguous();
  const int64_t channels = scale.numel();
  const int64_t rows = x.numel() / channels;
  const float cap = (float)cap_arg;
  auto out = torch::empty_like(x);
  const float* restrict in = x.data_ptr<float>();
  const float* restrict a = scale.data_ptr<float>();
  const float* restrict b = shift.data_ptr<float>();
  float* restrict y = out.data_ptr<float>();
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      const float v = in[row * channels + c];
      const float u = v * a[c] + b[c];
      const float gated = u / (1.0f + std::exp(-u));
      y[row * channels + c] = v + cap * std::tanh(gated / cap);
    }
  }
  return out;
}
"""

extension = load_inline(
    name="elementwise_chain_cpp",
    cpp_sources=CPP,
    functions=["forward"],
    extra_cflags=["-O3", "-march=native", "-fno-trapping-math", "-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int, cap: float):
        super().__init__()
        self.cap = cap
        self.scale = nn.Parameter(1.0 + 0.1 * torch.randn(channels))
        self.shift = nn.Parameter(0.1 * torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, self.scale.detach(), self.shift.detach(), self.cap)
