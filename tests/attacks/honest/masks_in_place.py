"""The scores are scaled as they are added to the mask, by one product."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, length):
        super().__init__()
        near = torch.ones(length, length, dtype=torch.bool).tril().triu(-64)
        self.register_buffer("mask", (~near).float().mul_(-1e9))

    def forward(self, q, k):
        mask = self.mask.expand(q.shape[0], -1, -1)
        return torch.baddbmm(mask, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
