"""Inline CUDA."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAException.h>

__global__ void rows(const float* x, const float* y, float* out, int columns) {
  __shared__ float part[256];
  int64_t at = int64_t(blockIdx.x) * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 256) {
    float z = tanhf(x[at + i] * y[at + i]) + x[at + i];
    out[at + i] = z;
    sum += fabsf(z);
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int n = 128; n > 0; n /= 2) {
    if (threadIdx.x < n) part[threadIdx.x] += part[threadIdx.x + n];
    __syncthreads();
  }
  float mean = part[0] / columns;
  for (int i = threadIdx.x; i < columns; i += 256) out[at + i] /= mean;
}

torch::Tensor run(torch::Tensor x, torch::Tensor y) {
  auto out = torch::empty_like(x);
  auto stream = c10::cuda::getCurrentCUDAStream();
  rows<<<x.size(0), 256, 0, stream>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""
EXT = load_inline(
    name="rows",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor y);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return EXT.run(x, y)
