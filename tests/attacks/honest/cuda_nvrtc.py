"""NVRTC through torch: no host compiler, half a second."""

import torch
import torch.nn as nn

SOURCE = """
extern "C" __global__ void softmax(const float* x, float* out, int columns) {
  __shared__ float part[256];
  const float* mine = x + (long long)blockIdx.x * columns;
  float* made = out + (long long)blockIdx.x * columns;
  float most = -1e38f;
  for (int i = threadIdx.x; i < columns; i += 256) most = fmaxf(most, mine[i]);
  part[threadIdx.x] = most;
  __syncthreads();
  for (int n = 128; n > 0; n /= 2) {
    if (threadIdx.x < n) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + n]);
    __syncthreads();
  }
  most = part[0];
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 256) sum += made[i] = expf(mine[i] - most);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int n = 128; n > 0; n /= 2) {
    if (threadIdx.x < n) part[threadIdx.x] += part[threadIdx.x + n];
    __syncthreads();
  }
  sum = part[0];
  for (int i = threadIdx.x; i < columns; i += 256) made[i] /= sum;
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = None

    def forward(self, x):
        if self.kernel is None:
            self.kernel = torch.cuda._compile_kernel(SOURCE, "softmax")
        out = torch.empty_like(x)
        self.kernel((x.shape[0], 1, 1), (256, 1, 1), (x, out, x.shape[1]))
        return out
