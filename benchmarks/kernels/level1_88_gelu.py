"""GELU by tanh, in one pass: 0.5 x (1 + tanh u) is x / (1 + exp(-2 u))."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor gelu(torch::Tensor x);"

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kThreads = 256;

__device__ float gelu_of(float x) {
  const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
  return __fdividef(x, 1.0f + __expf(-2.0f * u));
}

__global__ void __launch_bounds__(kThreads) gelu_kernel(const float4* __restrict__ x,
                                                        float4* __restrict__ y, size_t quads) {
  const size_t i = (size_t)blockIdx.x * kThreads + threadIdx.x;
  if (i >= quads) return;
  const float4 v = __ldcs(x + i);
  __stcs(y + i, make_float4(gelu_of(v.x), gelu_of(v.y), gelu_of(v.z), gelu_of(v.w)));
}

torch::Tensor gelu(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "float32 on the GPU, please");
  TORCH_CHECK(x.numel() % 4 == 0, "whole quads only");
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const size_t quads = x.numel() / 4;
  auto stream = c10::cuda::getCurrentCUDAStream();
  gelu_kernel<<<(quads + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      reinterpret_cast<const float4*>(x.data_ptr<float>()),
      reinterpret_cast<float4*>(y.data_ptr<float>()), quads);
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
  return y;
}
"""

extension = load_inline(
    name="kernelbench_gelu",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["gelu"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.gelu(x)
