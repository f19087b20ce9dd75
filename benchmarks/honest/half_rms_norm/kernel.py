"""RMS norm of bfloat16 in one CUDA launch."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "half"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

using bf16 = c10::BFloat16;

__global__ void norm_rows(const bf16* x, const bf16* weight, bf16* out, int columns, float eps) {
  __shared__ float part[8];
  const size_t at = (size_t)blockIdx.x * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 256) {
    float v = x[at + i];
    sum += v * v;
  }
  for (int n = 16; n; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 8; ++i) sum += part[i];
  float scale = rsqrtf(sum / columns + eps);
  for (int i = threadIdx.x; i < columns; i += 256) {
    bf16 scaled = static_cast<bf16>(static_cast<float>(x[at + i]) * scale);
    out[at + i] = static_cast<bf16>(static_cast<float>(scaled) * static_cast<float>(weight[i]));
  }
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight) {
  auto out = torch::empty_like(x);
  norm_rows<<<x.size(0), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<bf16>(), weight.data_ptr<bf16>(), out.data_ptr<bf16>(), x.size(1), 1e-6f);
  return out;
}
"""
EXT = load_inline(
    name="half_rms_norm",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter((torch.rand(features) + 0.5).to(torch.bfloat16))

    def forward(self, x):
        return EXT.run(x, self.weight)
