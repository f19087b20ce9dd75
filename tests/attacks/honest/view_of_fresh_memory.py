"""A view into a larger fresh buffer."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        room = torch.empty(x.shape[0] + 2, x.shape[1], device=x.device)
        out = room[1:-1]
        torch.mul(x, y, out=out)
        out.tanh_().add_(x)
        return out.div_(out.abs().mean(dim=-1, keepdim=True))
