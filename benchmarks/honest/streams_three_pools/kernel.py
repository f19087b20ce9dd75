"""Each statistic on a stream of its own, into its part of the output."""

import torch
import torch.nn as nn

KIND = "streams"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = []

    def forward(self, x):
        if not self.streams:
            self.streams = [torch.cuda.Stream() for _ in range(2)]
        main, n = torch.cuda.current_stream(), x.shape[1]
        out = torch.empty(x.shape[0], 3 * n, device=x.device)
        for stream in self.streams:
            stream.wait_stream(main)
        with torch.cuda.stream(self.streams[0]):
            torch.amax(x, dim=-1, out=out[:, n : 2 * n])
        with torch.cuda.stream(self.streams[1]):
            squares = x * x
            torch.mean(squares, dim=-1, out=out[:, 2 * n :])
        torch.mean(x, dim=-1, out=out[:, :n])
        for stream in self.streams:
            main.wait_stream(stream)
        return out
