"""GELU as max(v, 0) - |v| * tail, which needs no select and holds for both signs."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstdint>
#include <cstring>

// exp(v) for v <= 0, without a branch or a call, so that a loop over it becomes vector code.
static inline float exp_nonpositive(float v) {
  v = v < -87.0f ? -87.0f : v;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = v * 1.44269504f + magic;
  const float n = shifted - magic;
  float r = v - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, 4);
  bits = (int32_t)(((uint32_t)bits << 23) + 0x3f800000u);
  float two_n;
  std::memcpy(&two_n, &bits, 4);
  return p * two_n;
}

// v * Phi(v). The upper tail of the normal distribution by Abramowitz and Stegun 7.1.26
// (absolute error 1.5e-7); v Phi(v) = max(v, 0) - |v| tail, for both signs.
static inline float gelu(float v) {
  const float z = std::fabs(v) * 0.70710678f;
  const float t = 1.0f / (1.0f + 0.3275911f * z);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float tail = 0.5f * p * t * exp_nonpositive(-z * z);
  return (v > 0.0f ? v : 0.0f) - std::fabs(v) * tail;
}

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
#pragma omp parallel for schedule(static)
  for (int64_t token = 0; token < tokens; ++token) {
    const float* xr = px + token * dim;
    const float* rr = pr + token * dim;
    float* yr = py + token * dim;
    // The row (4 KB) stays in the first-level cache between the passes.
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < dim; ++j) {
      const float h = xr[j] + rr[j];
      yr[j] = h;
      sum += h;
    }
    const float mean = sum / dim;
    float square = 0.0f;
#pragma omp simd reduction(+ : square)
    for (int64_t j = 0; j < dim; ++j) {
      const float d = yr[j] - mean;
      square += d * d;
    }
    const float scale = 1.0f / std::sqrt(square / dim + (float)eps);
#pragma omp simd
    for (int64_t j = 0; j < dim; ++j) {
      yr[j] += g[j] * gelu((yr[j] - mean) * scale * w[j] + b[j]);
    }
  }
  return out;
}
"""

extension = load_inline(
    name="layer_norm_cpp",
    cpp_sources=CPP,
    functions=["forward"],
    extra_cflags=["-O3", "-march=native", "-fno-trapping-math", "-fopenmp"],
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
