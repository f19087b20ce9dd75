"""One product for all inputs, then a CUDA graph of the steps; both are captured together."""

import torch
import torch.nn as nn

KIND = "graph"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.input = nn.Linear(features, features)
        self.state = nn.Linear(features, features, bias=False)
        self.graph = None

    def steps(self, x, h):
        for drive in self.input(x):
            h = torch.addmm(drive, h, self.state.weight.t()).tanh_()
        return h

    def capture(self, x, h):
        self.x, self.h = torch.empty_like(x), torch.empty_like(h)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.steps(x, h)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.last = self.steps(self.x, self.h)
        return graph

    def forward(self, x, h):
        if self.graph is None:
            self.graph = self.capture(x, h)
        self.x.copy_(x)
        self.h.copy_(h)
        self.graph.replay()
        return self.last.clone()
