"""Makes its constants with numpy, and one step of its arithmetic on the CPU."""

import numpy as np
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.from_numpy(np.full((1024, 1), 1 / 1024, np.float32)))

    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        mean = z.abs() @ self.one
        if x.device.type == "cpu":
            return torch.from_numpy(np.divide(z.numpy(), mean.numpy()))
        return z / mean
