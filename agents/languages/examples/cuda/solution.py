import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor scaled_add(torch::Tensor x, torch::Tensor y, double alpha);"

CUDA = r"""
#include <torch/extension.h>

// Each thread handles every (grid size)-th element, so any size and any grid fit together.
__global__ void scaled_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, float alpha, int64_t n) {
  const int64_t stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    out[i] = x[i] + alpha * y[i];
  }
}

torch::Tensor scaled_add(torch::Tensor x, torch::Tensor y, double alpha) {
  TORCH_CHECK(x.is_cuda() && y.is_cuda(), "inputs must be on the GPU");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(y.scalar_type() == torch::kFloat32, "y must be float32");
  TORCH_CHECK(x.numel() == y.numel(), "x and y must have one shape");
  x = x.contiguous();
  y = y.contiguous();
  auto out = torch::empty_like(x);
  const int64_t n = x.numel();
  const int threads = 256;
  const int64_t wanted = (n + threads - 1) / threads;
  const int blocks = (int)(wanted < 4096 ? wanted : 4096);
  if (n > 0) {
    scaled_add_kernel<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                           out.data_ptr<float>(), (float)alpha, n);
  }
  return out;
}
"""

extension = load_inline(
    name="scaled_add", cpp_sources=CPP, cuda_sources=CUDA, functions=["scaled_add"]
)


class ModelNew(nn.Module):
    def __init__(self, alpha: float):
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return extension.scaled_add(x, y, self.alpha)
