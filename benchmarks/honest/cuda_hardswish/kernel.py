"""Four elements a CUDA thread."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__device__ float swish(float v) { return v * fminf(fmaxf(v + 3, 0), 6) / 6; }

__global__ void hardswish(const float4* x, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = x[i];
  out[i] = make_float4(swish(v.x), swish(v.y), swish(v.z), swish(v.w));
}

torch::Tensor run(torch::Tensor x) {
  TORCH_CHECK(x.numel() % 4 == 0, "a multiple of four elements");
  auto out = torch::empty_like(x);
  int n = x.numel() / 4;
  hardswish<<<(n + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const float4*>(x.data_ptr<float>()),
      reinterpret_cast<float4*>(out.data_ptr<float>()), n);
  return out;
}
"""
EXT = load_inline(
    name="cuda_hardswish",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return EXT.run(x)
