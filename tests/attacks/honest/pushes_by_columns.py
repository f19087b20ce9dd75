"""One coordinate at a time, in few passes."""

import torch
import torch.nn as nn


def forces(place):
    columns = [c.contiguous() for c in place.unbind(-1)]
    parts = [c.unsqueeze(1) - c for c in columns]
    square = parts[0] * parts[0]
    square.addcmul_(parts[1], parts[1]).addcmul_(parts[2], parts[2])
    square.fill_diagonal_(float("inf"))
    inverse = square.reciprocal_()
    sixth = inverse * inverse * inverse
    size = sixth.mul(48.0).sub_(24.0).mul_(sixth).mul_(inverse)
    return torch.stack([p.mul_(size).sum(1) for p in parts], -1)


class ModelNew(nn.Module):
    def forward(self, place):
        return forces(place)
