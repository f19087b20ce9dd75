"""Depthwise 3 x 7 convolution: a tile of one plane in shared memory, 4 x 4 outputs a thread."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor depthwise(torch::Tensor x, torch::Tensor weight);"

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kHigh = 3, kWide = 7;       // the filter
constexpr int kWidth = 256;               // of the input
constexpr int kOut = kWidth - kWide + 1;  // of the output
constexpr int kRows = 16;                 // of the output a block
constexpr int kEach = 4;                  // rows a thread, and columns
constexpr int kQuads = kWidth / 4;
constexpr int kLine = kWidth + 8;  // the last threads read past the row, and use none of it
constexpr int kThreads = kQuads * kRows / kEach;

__global__ void __launch_bounds__(kThreads) depthwise_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y,
    int channels, int height) {
  __shared__ __align__(16) float tile[kRows + kHigh - 1][kLine];
  const int plane = blockIdx.y, first = blockIdx.x * kRows;
  const float4* from = reinterpret_cast<const float4*>(x + (size_t)plane * height * kWidth);
  for (int i = threadIdx.x; i < (kRows + kHigh - 1) * kQuads; i += kThreads) {
    const int row = i / kQuads, quad = i % kQuads;
    const float4 v = first + row < height ? from[(size_t)(first + row) * kQuads + quad]
                                          : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    *reinterpret_cast<float4*>(&tile[row][4 * quad]) = v;
  }
  float w[kHigh][kWide];
#pragma unroll
  for (int i = 0; i < kHigh * kWide; ++i)
    w[i / kWide][i % kWide] = weight[plane % channels * (kHigh * kWide) + i];
  __syncthreads();

  const int col = threadIdx.x % kQuads * 4, row = threadIdx.x / kQuads * kEach;
  float sums[kEach][4] = {};
#pragma unroll
  for (int line = 0; line < kEach + kHigh - 1; ++line) {
    float v[12];
#pragma unroll
    for (int q = 0; q < 3; ++q)
      *reinterpret_cast<float4*>(&v[4 * q]) =
          *reinterpret_cast<const float4*>(&tile[row + line][col + 4 * q]);
#pragma unroll
    for (int i = 0; i < kHigh; ++i) {
      const int out = line - i;  // this line is the i-th of that output's
      if (out < 0 || out >= kEach) continue;
#pragma unroll
      for (int j = 0; j < kWide; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[out][c] += w[i][j] * v[c + j];
    }
  }
  const int high = height - kHigh + 1;
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    if (first + row + r >= high) break;
    float* to = y + ((size_t)plane * high + first + row + r) * kOut + col;
#pragma unroll
    for (int c = 0; c < 4; c += 2)  // output rows are even, not whole quads
      if (col + c < kOut)
        __stcs(reinterpret_cast<float2*>(to + c), make_float2(sums[r][c], sums[r][c + 1]));
  }
}

torch::Tensor depthwise(torch::Tensor x, torch::Tensor weight) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "float32 on the GPU, please");
  TORCH_CHECK(x.dim() == 4 && x.size(3) == kWidth, "rows of 256 only");
  TORCH_CHECK(weight.size(0) == x.size(1) && weight.size(1) == 1 && weight.size(2) == kHigh &&
                  weight.size(3) == kWide,
              "3 x 7 depthwise filters only");
  x = x.contiguous();
  weight = weight.contiguous();
  const int channels = (int)x.size(1), height = (int)x.size(2);
  const int planes = (int)x.size(0) * channels, high = height - kHigh + 1;
  auto y = torch::empty({x.size(0), x.size(1), high, kOut}, x.options());
  auto stream = c10::cuda::getCurrentCUDAStream();
  depthwise_kernel<<<dim3((high + kRows - 1) / kRows, planes), kThreads, 0, stream>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), channels, height);
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
  return y;
}
"""

extension = load_inline(
    name="kernelbench_depthwise",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["depthwise"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Arguments as the reference has them; the kernel is for stride 1 without padding."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size_h: int,
        kernel_size_w: int,
        stride_h: int = 1,
        stride_w: int = 1,
        padding_h: int = 0,
        padding_w: int = 0,
        dilation_h: int = 1,
        dilation_w: int = 1,
        groups: int = 1,
        bias: bool = False,
    ):
        super().__init__()
        assert (stride_h, stride_w, padding_h, padding_w) == (1, 1, 0, 0)
        assert (dilation_h, dilation_w, bias) == (1, 1, False)
        self.conv2d = nn.Conv2d(
            in_channels,
            in_channels,
            (kernel_size_h, kernel_size_w),
            groups=in_channels,
            bias=False,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.depthwise(x, self.conv2d.weight)
