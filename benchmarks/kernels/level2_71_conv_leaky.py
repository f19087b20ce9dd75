"""The convolution is cuDNN's; bias, division and LeakyReLU are one pass in place."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "void finish(torch::Tensor y, torch::Tensor bias, double scale, double slope);"

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) finish_kernel(
    float4* __restrict__ y, const float* __restrict__ bias, int channels, int quads, float scale,
    float slope) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= quads) return;
  const float b = bias[blockIdx.y % channels];
  auto finished = [&](float v) {
    v = (v + b) * scale;
    return v > 0.0f ? v : v * slope;
  };
  float4* at = y + (size_t)blockIdx.y * quads + i;
  const float4 v = __ldcs(at);
  __stcs(at, make_float4(finished(v.x), finished(v.y), finished(v.z), finished(v.w)));
}

void finish(torch::Tensor y, torch::Tensor bias, double scale, double slope) {
  TORCH_CHECK(y.is_cuda() && y.scalar_type() == torch::kFloat32, "float32 on the GPU, please");
  TORCH_CHECK(y.dim() == 4 && y.is_contiguous(), "contiguous planes, please");
  const int channels = (int)y.size(1);
  const int64_t plane = y.size(2) * y.size(3), planes = y.size(0) * channels;
  TORCH_CHECK(plane % 4 == 0 && planes < 65536, "planes of whole quads, fewer than 65536");
  const int quads = (int)(plane / 4);
  auto stream = c10::cuda::getCurrentCUDAStream();
  finish_kernel<<<dim3((quads + kThreads - 1) / kThreads, planes), kThreads, 0, stream>>>(
      reinterpret_cast<float4*>(y.data_ptr<float>()), bias.data_ptr<float>(), channels, quads,
      (float)scale, (float)slope);
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
}
"""

extension = load_inline(
    name="kernelbench_conv_leaky",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["finish"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, divisor: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.conv2d(x, self.conv.weight).contiguous()
        extension.finish(y, self.conv.bias, 1.0 / self.divisor, 0.01)
        return y
