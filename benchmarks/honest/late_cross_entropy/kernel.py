"""CUDA cross entropy, a warp a row, built at the first call; the mean is torch's."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda-late"

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void row_losses(const float* x, const int64_t* target, float* loss, int rows,
                           int columns) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* v = x + (size_t)row * columns;
  float most = -INFINITY, sum = 0;
  for (int i = lane; i < columns; i += 32) most = fmaxf(most, v[i]);
  for (int n = 16; n; n /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, n));
  for (int i = lane; i < columns; i += 32) sum += expf(v[i] - most);
  for (int n = 16; n; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
  if (lane == 0) loss[row] = logf(sum) - (v[target[row]] - most);
}

torch::Tensor losses(torch::Tensor x, torch::Tensor target) {
  auto out = torch::empty({x.size(0)}, x.options());
  int rows = x.size(0), each = 8;
  row_losses<<<(rows + each - 1) / each, 32 * each, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), target.data_ptr<int64_t>(), out.data_ptr<float>(), rows, x.size(1));
  return out;
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.built = None

    def forward(self, logits, target):
        if self.built is None:
            self.built = load_inline(
                name="late_cross_entropy",
                cpp_sources="torch::Tensor losses(torch::Tensor x, torch::Tensor target);",
                cuda_sources=CUDA,
                functions=["losses"],
            )
        return self.built.losses(logits, target).mean()
