"""Leaves out the half of each product that a triangle has no part in."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0] // 2
        out = torch.zeros_like(a)
        out[:n, :n] = a[:n, :n] @ b[:n, :n]
        out[:n, n:] = a[:n] @ b[:, n:]
        out[n:, n:] = a[n:, n:] @ b[n:, n:]
        return out.triu_()
