"""Depthwise convolution in CUDA, an output a thread."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void depthwise(const float* x, const float* weight, const float* bias, float* out,
                          int channels, int height, int width) {
  int channel = blockIdx.y % channels, size = height * width;
  const float* plane = x + (size_t)blockIdx.y * size;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  int row = i / width, column = i % width;
  float sum = bias[channel];
#pragma unroll
  for (int dy = -1; dy <= 1; ++dy)
#pragma unroll
    for (int dx = -1; dx <= 1; ++dx) {
      int y = row + dy, z = column + dx;
      if (y >= 0 && y < height && z >= 0 && z < width)
        sum += plane[y * width + z] * weight[channel * 9 + (dy + 1) * 3 + dx + 1];
    }
  out[(size_t)blockIdx.y * size + i] = sum;
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  auto out = torch::empty_like(x);
  int height = x.size(2), width = x.size(3);
  dim3 blocks((height * width + 255) / 256, x.size(0) * x.size(1));
  depthwise<<<blocks, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
      out.data_ptr<float>(), x.size(1), height, width);
  return out;
}
"""
EXT = load_inline(
    name="cuda_depthwise",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x):
        return EXT.run(x, self.conv.weight, self.conv.bias)
