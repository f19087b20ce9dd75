"""A warp a row of 256, kept in registers."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void softmax(const float* x, float* out, int rows) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float v[8], most = -INFINITY, sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    v[k] = x[(size_t)row * 256 + 32 * k + lane];
    most = fmaxf(most, v[k]);
  }
  for (int n = 16; n; n /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, n));
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += v[k] = expf(v[k] - most);
  for (int n = 16; n; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
#pragma unroll
  for (int k = 0; k < 8; ++k) out[(size_t)row * 256 + 32 * k + lane] = v[k] / sum;
}

torch::Tensor run(torch::Tensor x) {
  TORCH_CHECK(x.size(1) == 256, "rows of 256");
  auto out = torch::empty_like(x);
  int rows = x.size(0);
  softmax<<<(rows + 3) / 4, 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), out.data_ptr<float>(), rows);
  return out;
}
"""
EXT = load_inline(
    name="cuda_short_softmax",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return EXT.run(x)
