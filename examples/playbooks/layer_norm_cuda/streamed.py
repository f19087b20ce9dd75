"""One warp per token; activations marked as streaming, the affine map stays cached."""

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

__device__ float warp_sum(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

// One warp per token: 8 float4 a lane hold the row of 1024 in registers; no barrier.
constexpr int kWarps = 4;
constexpr int kQuads = 8;
constexpr int kDim = 128 * kQuads;

__global__ void __launch_bounds__(32 * kWarps) norm_rows(
    const float4* __restrict__ x, const float4* __restrict__ residual,
    const float4* __restrict__ weight, const float4* __restrict__ bias,
    const float4* __restrict__ gate, float4* __restrict__ y, int tokens, float eps) {
  const int token = blockIdx.x * kWarps + threadIdx.x / 32;
  if (token >= tokens) return;  // whole warps leave together
  const int lane = threadIdx.x % 32;
  const size_t start = (size_t)token * (kDim / 4) + lane;

  float4 h[kQuads];
  float sum = 0.0f;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const float4 a = __ldcs(x + start + 32 * q);
    const float4 r = __ldcs(residual + start + 32 * q);
    h[q] = make_float4(a.x + r.x, a.y + r.y, a.z + r.z, a.w + r.w);
    sum += (h[q].x + h[q].y) + (h[q].z + h[q].w);
  }
  const float mean = warp_sum(sum) / kDim;
  float square = 0.0f;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const float4 d =
        make_float4(h[q].x - mean, h[q].y - mean, h[q].z - mean, h[q].w - mean);
    square += (d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w);
  }
  const float scale = rsqrtf(warp_sum(square) / kDim + eps);
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const float4 w = weight[lane + 32 * q];
    const float4 b = bias[lane + 32 * q];
    const float4 g = gate[lane + 32 * q];
    const float4 o = make_float4(h[q].x + g.x * gelu((h[q].x - mean) * scale * w.x + b.x),
                                 h[q].y + g.y * gelu((h[q].y - mean) * scale * w.y + b.y),
                                 h[q].z + g.z * gelu((h[q].z - mean) * scale * w.z + b.z),
                                 h[q].w + g.w * gelu((h[q].w - mean) * scale * w.w + b.w));
    __stcs(y + start + 32 * q, o);
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
  TORCH_CHECK(dim == kDim, "rows must have 1024 elements");
  norm_rows<<<(tokens + kWarps - 1) / kWarps, 32 * kWarps>>>(
      reinterpret_cast<const float4*>(x.data_ptr<float>()),
      reinterpret_cast<const float4*>(residual.data_ptr<float>()),
      reinterpret_cast<const float4*>(weight.data_ptr<float>()),
      reinterpret_cast<const float4*>(bias.data_ptr<float>()),
      reinterpret_cast<const float4*>(gate.data_ptr<float>()),
      reinterpret_cast<float4*>(out.data_ptr<float>()), tokens, (float)eps);
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
