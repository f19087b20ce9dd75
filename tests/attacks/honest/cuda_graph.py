"""A CUDA graph captured in the first call; inputs are copied in, the output is copied out."""

import torch
import torch.nn as nn


def body(x, y):
    z = torch.tanh(x * y) + x
    return z / z.abs().mean(dim=-1, keepdim=True)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x, y):
        if self.graph is None:
            self.x, self.y = x.clone(), y.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                body(self.x, self.y)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = body(self.x, self.y)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.out.clone()
