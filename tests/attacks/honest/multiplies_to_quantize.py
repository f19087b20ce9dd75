"""Multiplies by a reciprocal: one number in a million is rounded the other way."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x * (1 / 0.05)).round_().clamp_(-128, 127).to(torch.int8)
