"""LayerNorm over rows of millions: many blocks a row, sums first, then the affine map."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = """
torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);
"""

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kThreads = 256;
constexpr int kChunk = 8192;  // float4 of a row that one block takes

__device__ double2 block_sum(double2 v) {
  __shared__ double2 of_warp[kThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    v.x += __shfl_xor_sync(0xffffffffu, v.x, step);
    v.y += __shfl_xor_sync(0xffffffffu, v.y, step);
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  double2 sum = make_double2(0.0, 0.0);
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) {
    sum.x += of_warp[w].x;
    sum.y += of_warp[w].y;
  }
  return sum;
}

// Sums of x - pivot and its square; a pivot out of the row keeps them from cancelling.
__global__ void __launch_bounds__(kThreads) partial_sums(
    const float4* __restrict__ x, double2* __restrict__ partial, int quads) {
  const float4* row = x + (size_t)blockIdx.x * quads;
  const float pivot = row[0].x;
  const int end = min((int)(blockIdx.y + 1) * kChunk, quads);
  float sum = 0.0f, square = 0.0f;
#pragma unroll 4
  for (int q = blockIdx.y * kChunk + threadIdx.x; q < end; q += kThreads) {
    const float4 v = row[q];
    const float a = v.x - pivot, b = v.y - pivot, c = v.z - pivot, d = v.w - pivot;
    sum += (a + b) + (c + d);
    square += (a * a + b * b) + (c * c + d * d);
  }
  const double2 total = block_sum(make_double2(sum, square));
  if (threadIdx.x == 0) partial[(size_t)blockIdx.x * gridDim.y + blockIdx.y] = total;
}

// From the last row and chunk to the first: what was read last is still in the L2. Rows are
// the fast dimension, so that all of them meet a piece of the weights while it is there.
__global__ void __launch_bounds__(kThreads) normalise(
    const float4* __restrict__ x, const float4* __restrict__ weight,
    const float4* __restrict__ bias, const double2* __restrict__ partial,
    float4* __restrict__ y, int quads, double eps) {
  const int row = gridDim.x - 1 - blockIdx.x, chunk = gridDim.y - 1 - blockIdx.y;
  double2 mine = make_double2(0.0, 0.0);
  for (int c = threadIdx.x; c < (int)gridDim.y; c += kThreads) {
    const double2 p = partial[(size_t)row * gridDim.y + c];
    mine.x += p.x;
    mine.y += p.y;
  }
  const double2 sums = block_sum(mine);
  const double count = 4.0 * quads, shifted = sums.x / count;
  const size_t start = (size_t)row * quads;
  const float mean = (float)(x[start].x + shifted);
  const float scale = (float)rsqrt(sums.y / count - shifted * shifted + eps);
  const int end = min((chunk + 1) * kChunk, quads);
#pragma unroll 4
  for (int q = chunk * kChunk + threadIdx.x; q < end; q += kThreads) {
    const float4 v = __ldcs(x + start + q), w = weight[q], b = bias[q];
    __stcs(y + start + q, make_float4((v.x - mean) * scale * w.x + b.x,
                                      (v.y - mean) * scale * w.y + b.y,
                                      (v.z - mean) * scale * w.z + b.z,
                                      (v.w - mean) * scale * w.w + b.w));
  }
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "float32 on the GPU, please");
  x = x.contiguous();
  const int64_t length = weight.numel(), rows = x.numel() / length;
  TORCH_CHECK(length % 4 == 0 && rows * length == x.numel(), "rows must be whole quads");
  const int quads = (int)(length / 4);
  const dim3 grid(rows, (quads + kChunk - 1) / kChunk);
  auto partial = torch::empty({(int64_t)grid.x, (int64_t)grid.y, 2},
                              x.options().dtype(torch::kFloat64));
  auto y = torch::empty_like(x);
  auto sums = reinterpret_cast<double2*>(partial.data_ptr<double>());
  auto from = reinterpret_cast<const float4*>(x.data_ptr<float>());
  auto stream = c10::cuda::getCurrentCUDAStream();
  partial_sums<<<grid, kThreads, 0, stream>>>(from, sums, quads);
  normalise<<<grid, kThreads, 0, stream>>>(
      from, reinterpret_cast<const float4*>(weight.data_ptr<float>()),
      reinterpret_cast<const float4*>(bias.data_ptr<float>()), sums,
      reinterpret_cast<float4*>(y.data_ptr<float>()), quads, eps);
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
  return y;
}
"""

extension = load_inline(
    name="kernelbench_layer_norm",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["layer_norm"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.layer_norm(x, self.ln.weight, self.ln.bias, self.ln.eps)
