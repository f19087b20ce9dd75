"""CUDA compiled by NVRTC at the first call, through torch."""

import torch
import torch.nn as nn

KIND = "nvrtc"


SOURCE = """
extern "C" __global__ void affine(const float* x, const float* scale, const float* shift,
                                  float* out, int plane, int channels, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int channel = i / plane % channels;
  float v = x[i] * scale[channel] + shift[channel];
  out[i] = v > 0 ? v : 0.1f * v;
}
"""


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(channels, 1, 1) + 0.5)
        self.shift = nn.Parameter(torch.randn(channels, 1, 1))
        self.kernel = None

    def forward(self, x):
        if self.kernel is None:
            self.kernel = torch.cuda._compile_kernel(SOURCE, "affine")
        out, n = torch.empty_like(x), x.numel()
        told = (x, self.scale, self.shift, out, x.shape[2] * x.shape[3], x.shape[1], n)
        self.kernel(((n + 255) // 256, 1, 1), (256, 1, 1), told)
        return out
