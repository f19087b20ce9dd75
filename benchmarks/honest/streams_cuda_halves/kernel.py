"""Halves on two streams of torch's pool, forked and joined by events in C++."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KIND = "streams"


CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__global__ void gate(const float* x, const float* y, float* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = tanhf(x[i]) * y[i];
}

cudaEvent_t made() {
  cudaEvent_t event;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

torch::Tensor run(torch::Tensor x, torch::Tensor y) {
  static cudaEvent_t begun = made(), done[2] = {made(), made()};
  auto out = torch::empty_like(x);
  auto main = c10::cuda::getCurrentCUDAStream();
  cudaEventRecord(begun, main);
  int64_t half = x.numel() / 2;
  for (int side = 0; side < 2; ++side) {
    int64_t from = side * half, count = side ? x.numel() - half : half;
    auto stream = c10::cuda::getStreamFromPool();
    cudaStreamWaitEvent(stream, begun);
    gate<<<(count + 255) / 256, 256, 0, stream>>>(
        x.data_ptr<float>() + from, y.data_ptr<float>() + from, out.data_ptr<float>() + from,
        count);
    cudaEventRecord(done[side], stream);
    cudaStreamWaitEvent(main, done[side]);
  }
  return out;
}
"""
EXT = load_inline(
    name="streams_cuda_halves",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor y);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return EXT.run(x, y)
