"""Two operations in place of four, the second in place."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, noise, low, high, begin, end):
        y = torch.addcmul(x, noise, torch.sqrt(end - begin))
        return torch.clamp_(y, low, high)
