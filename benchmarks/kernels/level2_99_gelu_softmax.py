"""The matmul is cuBLAS's; GELU and softmax keep a row in registers and work in place."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "void gelu_softmax(torch::Tensor y);"

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kQuads = 4;  // float4 a thread
constexpr int kRow = kThreads * kQuads * 4;

__device__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }

struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <typename Of>
__device__ float block_reduce(float v, Of of) {
  __shared__ float of_warp[kWarps];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = of(v, __shfl_xor_sync(0xffffffffu, v, step));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = of_warp[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) v = of(v, of_warp[w]);
  return v;
}

__global__ void __launch_bounds__(kThreads) gelu_softmax_kernel(float4* __restrict__ y) {
  float4* row = y + (size_t)blockIdx.x * (kRow / 4) + threadIdx.x;
  float4 v[kQuads];
  float most = -INFINITY;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const float4 r = row[q * kThreads];
    v[q] = make_float4(gelu(r.x), gelu(r.y), gelu(r.z), gelu(r.w));
    most = fmaxf(most, fmaxf(fmaxf(v[q].x, v[q].y), fmaxf(v[q].z, v[q].w)));
  }
  most = block_reduce(most, Max());
  float sum = 0.0f;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    v[q] = make_float4(__expf(v[q].x - most), __expf(v[q].y - most), __expf(v[q].z - most),
                       __expf(v[q].w - most));
    sum += (v[q].x + v[q].y) + (v[q].z + v[q].w);
  }
  const float scale = 1.0f / block_reduce(sum, Sum());
#pragma unroll
  for (int q = 0; q < kQuads; ++q)
    row[q * kThreads] =
        make_float4(v[q].x * scale, v[q].y * scale, v[q].z * scale, v[q].w * scale);
}

void gelu_softmax(torch::Tensor y) {
  TORCH_CHECK(y.is_cuda() && y.scalar_type() == torch::kFloat32, "float32 on the GPU, please");
  TORCH_CHECK(y.dim() == 2 && y.is_contiguous() && y.size(1) == kRow, "rows of 8192 only");
  auto stream = c10::cuda::getCurrentCUDAStream();
  gelu_softmax_kernel<<<y.size(0), kThreads, 0, stream>>>(
      reinterpret_cast<float4*>(y.data_ptr<float>()));
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
}
"""

extension = load_inline(
    name="kernelbench_gelu_softmax",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["gelu_softmax"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        extension.gelu_softmax(y)
        return y
