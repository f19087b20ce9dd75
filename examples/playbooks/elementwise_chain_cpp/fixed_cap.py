"""The division by the cap is one reciprocal, computed before the loops."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = r"""
#include <torch/extension.h>
#include <cmath>
#include <cstdint>
#include <cstring>

// exp(v) without a branch or a call, so that a loop over it becomes vector code.
// Range reduction v = n ln 2 + r, a degree-6 polynomial for e^r, then 2^n through the exponent
// bits. Large v gives infinity, very negative v a tiny positive number, a NaN stays a NaN.
static inline float fast_exp(float v) {
  v = v < -87.0f ? -87.0f : v;
  v = v > 88.8f ? 88.8f : v;
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

// tanh(z) = sign(z) (1 - t) / (1 + t) with t = exp(-2 |z|): no overflow on either side.
static inline float fast_tanh(float z) {
  const float t = fast_exp(-2.0f * std::fabs(z));
  return std::copysign((1.0f - t) / (1.0f + t), z);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor scale, torch::Tensor shift, double cap_arg) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  scale = scale.contiguous();
  shift = shift.contiguous();
  const int64_t channels = scale.numel();
  const int64_t rows = x.numel() / channels;
  const float cap = (float)cap_arg;
  auto out = torch::empty_like(x);
  const float* in = x.data_ptr<float>();
  const float* a = scale.data_ptr<float>();
  const float* b = shift.data_ptr<float>();
  float* y = out.data_ptr<float>();
  const float inverse_cap = 1.0f / cap;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float v = in[row * channels + c];
      const float u = v * a[c] + b[c];
      const float gated = u * (1.0f / (1.0f + fast_exp(-u)));
      y[row * channels + c] = v + cap * fast_tanh(gated * inverse_cap);
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
