"""CUB's block scan, a row a block, eight elements a thread."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cub"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cub/block/block_scan.cuh>

__global__ void scan(const float* x, const bool* mask, float* out, int columns) {
  using Scan = cub::BlockScan<float, 256>;
  __shared__ typename Scan::TempStorage scratch;
  const size_t start = (size_t)blockIdx.x * columns;
  float v[8];
  for (int k = 0; k < 8; ++k) {
    int i = threadIdx.x * 8 + k;
    v[k] = i < columns && mask[start + i] ? x[start + i] : 0;
  }
  Scan(scratch).InclusiveSum(v, v);
  for (int k = 0; k < 8; ++k)
    if (threadIdx.x * 8 + k < columns) out[start + threadIdx.x * 8 + k] = v[k];
}

torch::Tensor run(torch::Tensor x, torch::Tensor mask) {
  TORCH_CHECK(x.size(1) <= 2048, "rows of at most 2048");
  auto out = torch::empty_like(x);
  scan<<<x.size(0), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), mask.data_ptr<bool>(), out.data_ptr<float>(), x.size(1));
  return out;
}
"""
EXT = load_inline(
    name="cub_masked_cumsum",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor mask);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        return EXT.run(x, mask)
