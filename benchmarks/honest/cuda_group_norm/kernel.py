"""Group norm in two launches: statistics, then what follows from them."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "cuda-many"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__device__ float total(float v) {
  __shared__ float part[16];
  for (int n = 16; n; n /= 2) v += __shfl_xor_sync(~0u, v, n);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < 16; ++i) v += part[i];
  return v;
}

__global__ void statistics(const float* x, float2* found, int size, float eps) {
  const float* group = x + (size_t)blockIdx.x * size;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < size; i += 512) sum += group[i];
  float mean = total(sum) / size;
  for (int i = threadIdx.x; i < size; i += 512) squares += (group[i] - mean) * (group[i] - mean);
  squares = total(squares);
  if (threadIdx.x == 0) found[blockIdx.x] = make_float2(mean, rsqrtf(squares / size + eps));
}

__global__ void apply(const float* x, const float2* found, const float* weight, const float* bias,
                      float* out, int size, int plane, int channels, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 s = found[i / size];
  int channel = i / plane % channels;
  out[i] = (x[i] - s.x) * s.y * weight[channel] + bias[channel];
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups,
                  double eps) {
  int channels = x.size(1), plane = x.size(2) * x.size(3), n = x.numel();
  int size = channels / groups * plane, count = n / size;
  auto found = torch::empty({count, 2}, x.options());
  auto out = torch::empty_like(x);
  auto pairs = reinterpret_cast<float2*>(found.data_ptr<float>());
  auto stream = c10::cuda::getCurrentCUDAStream();
  statistics<<<count, 512, 0, stream>>>(x.data_ptr<float>(), pairs, size, eps);
  apply<<<(n + 255) / 256, 256, 0, stream>>>(
      x.data_ptr<float>(), pairs, weight.data_ptr<float>(), bias.data_ptr<float>(),
      out.data_ptr<float>(), size, plane, channels, n);
  return out;
}
"""
CPP = "torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t g, double e);"
EXT = load_inline(name="cuda_group_norm", cpp_sources=CPP, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.normal_(self.norm.weight, 1.0, 0.2)
        nn.init.normal_(self.norm.bias, 0.0, 0.2)

    def forward(self, x):
        norm = self.norm
        return EXT.run(x, norm.weight, norm.bias, norm.num_groups, norm.eps)
