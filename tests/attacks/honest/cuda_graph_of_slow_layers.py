"""A CUDA graph of a call that takes a tenth of a second; the input is copied in."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.graph = None

    def layers(self, x):
        for _ in range(48):
            x = torch.tanh(x @ self.weight) + 0.1 * x
        return x

    def forward(self, x):
        if self.graph is None:
            self.x = x.clone()
            self.layers(self.x)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = self.layers(self.x)
        self.x.copy_(x)
        self.graph.replay()
        return self.out.clone()
