"""A CUDA graph of eager operations; inputs are copied in, the output is copied out."""

import torch
import torch.nn as nn

KIND = "graph"


def chain(x, y):
    z = torch.sigmoid(x).mul_(y)
    z = z.add_(x).tanh_().sub_(y, alpha=0.1)
    return torch.where(z > 0, z, 0.2 * z).add_(x.abs().sqrt_())


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, *inputs):
        if self.graph is None:
            self.inputs = [value.clone() for value in inputs]
            chain(*self.inputs)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = chain(*self.inputs)
        for inside, value in zip(self.inputs, inputs, strict=True):
            inside.copy_(value)
        self.graph.replay()
        return torch.empty_like(self.out).copy_(self.out)
