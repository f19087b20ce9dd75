"""Each inner product by itself: what is not one is rounding."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        q = torch.linalg.qr(x).Q
        return (q.unsqueeze(3) * q.unsqueeze(2)).sum(1)
