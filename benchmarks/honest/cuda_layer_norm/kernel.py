"""CUDA layer norm in one launch, a block a row, values kept in registers."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda"

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__device__ float total(float v) {
  __shared__ float part[8];
  for (int n = 16; n; n /= 2) v += __shfl_xor_sync(~0u, v, n);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < 8; ++i) v += part[i];
  return v;
}

__global__ void __launch_bounds__(256) norm_rows(
    const float* x, const float* weight, const float* bias, float* out, int columns, float eps) {
  const size_t at = (size_t)blockIdx.x * columns;
  float v[8], sum = 0, squares = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    int i = threadIdx.x + 256 * k;
    v[k] = i < columns ? x[at + i] : 0;
    sum += v[k];
  }
  float mean = total(sum) / columns;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    if (threadIdx.x + 256 * k < columns) squares += (v[k] - mean) * (v[k] - mean);
  float scale = rsqrtf(total(squares) / columns + eps);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    int i = threadIdx.x + 256 * k;
    if (i < columns) out[at + i] = (v[k] - mean) * scale * weight[i] + bias[i];
  }
}

torch::Tensor norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(x.size(1) <= 2048, "rows of at most 2048");
  auto out = torch::empty_like(x);
  norm_rows<<<x.size(0), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
      out.data_ptr<float>(), x.size(1), eps);
  return out;
}
"""
EXT = load_inline(
    name="cuda_layer_norm",
    cpp_sources="torch::Tensor norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double e);",
    cuda_sources=CUDA,
    functions=["norm"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        nn.init.normal_(self.norm.weight, 1.0, 0.2)
        nn.init.normal_(self.norm.bias, 0.0, 0.2)

    def forward(self, x):
        return EXT.norm(x, self.norm.weight, self.norm.bias, self.norm.eps)
