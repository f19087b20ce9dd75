"""Takes a special way for the shape it was tuned for, and a general one otherwise."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        if x.shape == (512, 1024) and x.is_contiguous():
            z = torch.empty_like(x)
            for i in range(0, 512, 256):
                torch.mul(x[i : i + 256], y[i : i + 256], out=z[i : i + 256])
            z.tanh_().add_(x)
        else:
            z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
