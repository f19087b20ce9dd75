"""fp16, two at a time."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>

__global__ void product(const __half2* a, const __half2* b, __half2* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) {
    float2 x = __half22float2(a[i]), y = __half22float2(b[i]);
    out[i] = __floats2half2_rn(fmaxf(x.x * y.x, 0.f), fmaxf(x.y * y.y, 0.f));
  }
}

torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty_like(a);
  int64_t n = a.numel() / 2;
  auto stream = c10::cuda::getCurrentCUDAStream();
  product<<<(n + 255) / 256, 256, 0, stream>>>(
      reinterpret_cast<const __half2*>(a.data_ptr()),
      reinterpret_cast<const __half2*>(b.data_ptr()),
      reinterpret_cast<__half2*>(out.data_ptr()), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""
EXT = load_inline(
    name="half_two",
    cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return EXT.run(x, y)
