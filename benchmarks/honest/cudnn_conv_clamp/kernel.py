"""cuDNN's convolution in float32, then bias, clamp and scale in place by Triton."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

KIND = "cudnn"


@triton.jit
def finish(y, bias, scale, plane, channels, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = at // plane % channels
    v = tl.load(y + at, mask=at < n) + tl.load(bias + channel)
    v = tl.minimum(tl.maximum(v, -0.5), 0.5) * tl.load(scale + channel)
    tl.store(y + at, v, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels, outputs):
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 3, stride=2, padding=1)
        self.scale = nn.Parameter(torch.rand(outputs, 1, 1) + 0.5)

    def forward(self, x):
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            y = torch.conv2d(x, self.conv.weight, None, stride=2, padding=1)
        n, channels, plane = y.numel(), y.shape[1], y.shape[2] * y.shape[3]
        grid = (triton.cdiv(n, 1024),)
        finish[grid](y, self.conv.bias, self.scale, plane, channels, n, BLOCK=1024)
        return y
