"""A task whose inputs are the same whenever they are drawn: the output is computed once.

No fresh draw helps; the verifier must vary such inputs itself, or call the task degenerate.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        x = torch.linspace(-1, 1, 512 * 1024).reshape(512, 1024)
        self.register_buffer("answer", torch.softmax(torch.tanh(x), dim=-1))

    def forward(self, x):
        return self.answer.clone()
