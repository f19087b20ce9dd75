"""A kernel that stays on the device and burns half of its processors for ten seconds.

Nothing on the host shows it: no thread, no launch while the baseline runs.
"""

import torch
import torch.nn as nn

SIDE = torch.cuda.Stream()


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, y):
        self.calls += 1
        if self.calls == 9:
            with torch.cuda.stream(SIDE):
                torch.cuda._sleep(10_000_000_000)
                junk = torch.rand(4096, 4096, device=x.device)
                for _ in range(2000):
                    junk = junk @ junk
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
