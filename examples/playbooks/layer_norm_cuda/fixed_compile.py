"""One block per token, the summed row in shared memory."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = r"""
torch::Tensor forward(torch::Tensor x, torch::Tensor residual, torch::Tensor weight,
                      torch::Tensor bias, torch::Tensor gate, double eps);
"""

CUDA = r"""
#include <torch/extension.h>

__device__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }

// Sum over a block of 256 threads; every thread gets it.
__device__ float block_sum(float v) {
  __shared__ float part[8];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0.0f;
  for (int k = 0; k < 8; ++k) sum += part[k];
  __syncthreads();  // everyone has read `part` before the next call writes it
  return sum;
}

// One block of 256 threads per token; the sums x + residual wait in shared memory.
__global__ void norm_rows(
    const float* __restrict__ x, const float* __restrict__ residual,
    const float* __restrict__ weight, const float* __restrict__ bias,
    const float* __restrict__ gate, float* __restrict__ y, int tokens, int dim, float eps) {
  extern __shared__ float row[];
  const size_t start = (size_t)blockIdx.x * dim;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < dim; j += 256) {
    row[j] = x[start + j] + residual[start + j];
    sum += row[j];
  }
  const float mean = block_sum(sum) / dim;
  float square = 0.0f;
  for (int j = threadIdx.x; j < dim; j += 256) {
    square += (row[j] - mean) * (row[j] - mean);
  }
  const float scale = rsqrtf(block_sum(square) / dim + eps);
  for (int j = threadIdx.x; j < dim; j += 256) {
    y[start + j] = row[j] + gate[j] * gelu((row[j] - mean) * scale * weight[j] + bias[j]);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor residual, torch::Tensor weight,
                      torch::Tensor bias, torch::Tensor gate, double eps) {
  TORCH_CHECK(x.is_cuda() && residual.is_cuda(), "inputs must be on the GPU");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(residual.numel() == x.numel(), "x and residual must have one shape");
  x = x.contiguous();
  residual = residual.contiguous();
  const int dim = (int)weight.numel();
  const int tokens = (int)(x.numel() / dim);
  auto out = torch::empty_like(x);
  norm_rows<<<tokens, 256, dim * sizeof(float)>>>(
      x.data_ptr<float>(), residual.data_ptr<float>(), weight.data_ptr<float>(),
      bias.data_ptr<float>(), gate.data_ptr<float>(), out.data_ptr<float>(),
      tokens, dim, (float)eps);
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
  return out;
}
"""

extension = load_inline(
    name="layer_norm_cuda",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(1.0 + 0.2 * torch.randn(dim))
        self.bias = nn.Parameter(0.2 * torch.randn(dim))
        self.gate = nn.Parameter(0.5 + 0.2 * torch.randn(dim))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        weight, bias, gate = self.weight.detach(), self.bias.detach(), self.gate.detach()
        return extension.forward(x, residual, weight, bias, gate, self.eps)
