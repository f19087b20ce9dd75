"""A mask that is made once and returned each time, as the reference's is."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = None

    def forward(self, x):
        if self.seen is None:
            self.seen = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).tril()
        return torch.where(self.seen, x, -torch.inf).softmax(-1), self.seen
