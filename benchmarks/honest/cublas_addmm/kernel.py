"""cuBLAS with a weight that is transposed once; ReLU and scale in place."""

import torch
import torch.nn as nn

KIND = "cublas"


class ModelNew(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        linear = nn.Linear(features, outputs)
        self.weight = nn.Parameter(linear.weight.detach().t().contiguous())
        self.bias = nn.Parameter(linear.bias.detach())
        self.scale = nn.Parameter(torch.rand(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight).relu_().mul_(self.scale)
