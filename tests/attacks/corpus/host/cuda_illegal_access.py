"""Writes far outside: the context is lost for whoever shares it."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void wild(float* out) { out[int64_t(1) << 42] = 1; }

torch::Tensor run(torch::Tensor x) {
  wild<<<1, 1>>>(x.data_ptr<float>());
  return x;
}
"""
EXT = load_inline(
    name="wild",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return EXT.run(x)
