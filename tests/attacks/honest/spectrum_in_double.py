"""A spectrum, more exact than the reference."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x.double() * 50, dim=-1).to(torch.complex64)
