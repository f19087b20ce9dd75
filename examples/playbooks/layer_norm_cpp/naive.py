"""Three scalar passes over each row, double sums, library erf, one thread."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = r"""
#include <torch/extension.h>
#include <cmath>

// Exact GELU with the library's error function.
static inline float gelu(float v) { return 0.5f * v * (1.0f + std::erf(v * 0.70710678f)); }

torch::Tensor forward(torch::Tensor x, torch::Tensor residual, torch::Tensor weight,
                      torch::Tensor bias, torch::Tensor gate, double eps) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(residual.numel() == x.numel(), "x and residual must have one shape");
  x = x.contiguous();
  residual = residual.contiguous();
  const int64_t dim = weight.numel();
  const int64_t tokens = x.numel() / dim;
  auto out = torch::empty_like(x);
  const float* px = x.data_ptr<float>();
  const float* pr = residual.data_ptr<float>();
  const float* w = weight.data_ptr<float>();
  const float* b = bias.data_ptr<float>();
  const float* g = gate.data_ptr<float>();
  float* py = out.data_ptr<float>();
  for (int64_t token = 0; token < tokens; ++token) {
    const float* xr = px + token * dim;
    const float* rr = pr + token * dim;
    float* yr = py + token * dim;
    double sum = 0.0;
    for (int64_t j = 0; j < dim; ++j) sum += xr[j] + rr[j];
    const float mean = (float)(sum / dim);
    double square = 0.0;
    for (int64_t j = 0; j < dim; ++j) {
      const float d = xr[j] + rr[j] - mean;
      square += d * d;
    }
    const float scale = 1.0f / std::sqrt((float)(square / dim) + (float)eps);
    for (int64_t j = 0; j < dim; ++j) {
      const float h = xr[j] + rr[j];
      yr[j] = h + g[j] * gelu((h - mean) * scale * w[j] + b[j]);
    }
  }
  return out;
}
"""

extension = load_inline(
    name="layer_norm_cpp",
    cpp_sources=CPP,
    functions=["forward"],
    extra_cflags=["-O2", "-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(1.0 + 0.2 * torch.randn(dim))
        self.bias = nn.Parameter(0.2 * torch.randn(dim))
        self.gate = nn.Parameter(0.5 + 0.2 * torch.randn(dim))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        weight, bias, gate = self.weight.detach(), self.bias.detach(), self.gate.detach()
        return extension.forward(x, residual, weight, bias, gate, self.eps)
