import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = r"""
#include <torch/extension.h>

// One pass over memory, split over the cores; the loop body becomes SIMD code.
torch::Tensor scaled_add(torch::Tensor x, torch::Tensor y, double alpha) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(y.scalar_type() == torch::kFloat32, "y must be float32");
  TORCH_CHECK(x.numel() == y.numel(), "x and y must have one shape");
  x = x.contiguous();
  y = y.contiguous();
  auto out = torch::empty_like(x);
  const float* px = x.data_ptr<float>();
  const float* py = y.data_ptr<float>();
  float* po = out.data_ptr<float>();
  const int64_t n = x.numel();
  const float a = (float)alpha;
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) po[i] = px[i] + a * py[i];
  return out;
}
"""

extension = load_inline(
    name="scaled_add",
    cpp_sources=CPP,
    functions=["scaled_add"],
    extra_cflags=["-O3", "-march=native", "-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, alpha: float):
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return extension.scaled_add(x, y, self.alpha)
