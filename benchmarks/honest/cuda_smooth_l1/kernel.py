"""A mean in one launch: the last block adds the partial sums up, and resets the counter."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__device__ float total(float v) {
  __shared__ float part[8];
  for (int n = 16; n; n /= 2) v += __shfl_xor_sync(~0u, v, n);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < 8; ++i) v += part[i];
  return v;
}

__global__ void smooth_l1(const float* x, const float* y, float* sums, int* done, float* out,
                          int n) {
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    float d = fabsf(x[i] - y[i]);
    sum += d < 1 ? 0.5f * d * d : d - 0.5f;
  }
  sum = total(sum);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(done, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  sum = 0;
  for (int i = threadIdx.x; i < gridDim.x; i += 256) sum += __ldcg(sums + i);
  sum = total(sum);
  if (threadIdx.x == 0) {
    *out = sum / n;
    *done = 0;
  }
}

torch::Tensor run(torch::Tensor x, torch::Tensor y, torch::Tensor sums, torch::Tensor done) {
  auto out = torch::empty({}, x.options());
  smooth_l1<<<sums.size(0), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), sums.data_ptr<float>(), done.data_ptr<int>(),
      out.data_ptr<float>(), x.numel());
  return out;
}
"""
EXT = load_inline(
    name="cuda_smooth_l1",
    cpp_sources="torch::Tensor run(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.done = None

    def forward(self, x, y):
        if self.done is None:
            self.sums = torch.empty(528, device=x.device)
            self.done = torch.zeros(1, dtype=torch.int32, device=x.device)
        return EXT.run(x, y, self.sums, self.done)
