"""The pull of all bodies, a quarter of them at a time, so that it stays in the cache."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, step, softening):
        super().__init__()
        self.step, self.least = step, softening**2

    def forward(self, x, v):
        force = 0
        for begin in range(4):
            some = [each.contiguous() for each in x[begin::4].unbind(1)]
            apart = [
                b.unsqueeze(0) - a.unsqueeze(1) for a, b in zip(x.unbind(1), some, strict=True)
            ]
            square = (apart[0] * apart[0]).addcmul_(apart[1], apart[1])
            weight = square.addcmul_(apart[2], apart[2]).add_(self.least).pow_(-1.5)
            force = force + torch.stack([each.mul_(weight).sum(1) for each in apart], 1)
        v.add_(force, alpha=self.step / x.shape[0])
        x.add_(v, alpha=self.step)
        return x
