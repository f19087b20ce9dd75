"""cuDNN's convolution with bias and ReLU in one call, in float32."""

import torch
import torch.nn as nn

KIND = "cudnn"


class ModelNew(nn.Module):
    def __init__(self, channels, outputs):
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 3, padding=1)

    def forward(self, x):
        conv = self.conv
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return torch.cudnn_convolution_relu(
                x, conv.weight, conv.bias, conv.stride, conv.padding, conv.dilation, conv.groups
            )
