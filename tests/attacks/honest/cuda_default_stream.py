"""A kernel on the legacy default stream, as sources without a stream argument launch it."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void multiply(const float* a, const float* b, float* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = a[i] * b[i];
}

torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty_like(a);
  int64_t n = a.numel();
  multiply<<<(n + 255) / 256, 256>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
EXT = load_inline(
    name="legacy",
    cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = EXT.run(x, y).tanh_().add_(x)
        return z.div_(z.abs().mean(dim=-1, keepdim=True))
