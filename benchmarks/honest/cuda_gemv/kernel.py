"""Matrix times vector, a block an output."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void gemv(const float4* x, const float4* weight, const float* bias, float* out, int k) {
  __shared__ float part[4];
  const float4* row = weight + (size_t)blockIdx.x * k;
  float sum = 0;
  for (int i = threadIdx.x; i < k; i += 128) {
    float4 a = x[i], b = __ldcs(row + i);
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  for (int n = 16; n; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0)
    out[blockIdx.x] = part[0] + part[1] + part[2] + part[3] + bias[blockIdx.x];
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  TORCH_CHECK(x.size(0) == 1 && x.size(1) % 4 == 0, "one row, a multiple of four");
  auto out = torch::empty({1, weight.size(0)}, x.options());
  gemv<<<weight.size(0), 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const float4*>(x.data_ptr<float>()),
      reinterpret_cast<const float4*>(weight.data_ptr<float>()), bias.data_ptr<float>(),
      out.data_ptr<float>(), x.size(1) / 4);
  return out;
}
"""
EXT = load_inline(
    name="cuda_gemv",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x):
        return EXT.run(x, self.linear.weight, self.linear.bias)
