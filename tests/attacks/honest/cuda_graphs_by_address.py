"""A CUDA graph for each address that its inputs have had; the output is copied out."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def body(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)

    def captured(self, x, y):
        self.body(x, y)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(x, y)
        return graph, out

    def forward(self, x, y):
        where = x.data_ptr(), y.data_ptr()
        if where not in self.graphs:
            self.graphs[where] = self.captured(x, y)
        graph, out = self.graphs[where]
        graph.replay()
        return out.clone()
