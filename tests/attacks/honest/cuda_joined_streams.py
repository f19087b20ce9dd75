"""Two side streams that wait for the current one, and that it waits for."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = None

    def forward(self, x, y):
        if self.streams is None:
            self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        out, n, main = torch.empty_like(x), len(x) // 2, torch.cuda.current_stream()
        for stream, part in zip(self.streams, (slice(0, n), slice(n, None)), strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                z = torch.tanh(x[part] * y[part]) + x[part]
                torch.div(z, z.abs().mean(dim=-1, keepdim=True), out=out[part])
            z.record_stream(stream)
        for stream in self.streams:
            main.wait_stream(stream)
        return out
