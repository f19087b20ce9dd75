"""The same below torch: a stream that torch does not know, made by the runtime."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void spin_then_add(const float* a, const float* b, float* out, int64_t n) {
  long long until = clock64() + 2000000;
  while (clock64() < until) { }
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
  static cudaStream_t own = [] {
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    return s;
  }();
  auto out = torch::empty_like(a);
  int64_t n = a.numel();
  spin_then_add<<<(n + 255) / 256, 256, 0, own>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
EXT = load_inline(
    name="native_stream",
    cpp_sources="torch::Tensor add(torch::Tensor a, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["add"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = EXT.add(torch.tanh(x * y), x)
        return z / z.abs().mean(dim=-1, keepdim=True)
