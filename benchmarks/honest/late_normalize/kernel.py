"""CUDA row normalization, built at the first call."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda-late"


CPP = "torch::Tensor normalized(torch::Tensor x);"
CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void normalize(const float* x, float* out, int columns) {
  __shared__ float part[4];
  const size_t at = (size_t)blockIdx.x * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 128) sum += x[at + i] * x[at + i];
  for (int n = 16; n; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  float norm = fmaxf(sqrtf(part[0] + part[1] + part[2] + part[3]), 1e-12f);
  for (int i = threadIdx.x; i < columns; i += 128) out[at + i] = x[at + i] / norm;
}

torch::Tensor normalized(torch::Tensor x) {
  auto out = torch::empty_like(x);
  normalize<<<x.size(0), 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
}
"""
BUILT = {}


def extension():
    if not BUILT:
        BUILT["it"] = load_inline("late_normalize", CPP, CUDA, functions=["normalized"])
    return BUILT["it"]


class ModelNew(nn.Module):
    def forward(self, x):
        return extension().normalized(x)
