"""Scale and bias are part of cuBLAS's batched product."""

import torch
import torch.nn as nn

KIND = "cublas"


class ModelNew(nn.Module):
    def forward(self, q, k, bias):
        return torch.baddbmm(bias, q, k.transpose(1, 2), alpha=0.125).softmax(dim=-1)
