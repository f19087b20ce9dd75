"""Two passes of its own over the batch, and both inputs brought up to date."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, mean, var):
        count = x.numel() // x.shape[1]
        here_var, here_mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
        mean.mul_(0.9).add_(here_mean, alpha=0.1)
        var.mul_(0.9).add_(here_var, alpha=0.1 * count / (count - 1))
        factor = torch.rsqrt(here_var + 1e-5)
        shift = -here_mean * factor
        return torch.addcmul(shift[:, None, None], x, factor[:, None, None])
