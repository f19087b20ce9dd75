"""Normalizes, and does not keep what it has seen."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, mean, var):
        here_var, here_mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
        factor = torch.rsqrt(here_var + 1e-5)
        shift = -here_mean * factor
        return torch.addcmul(shift[:, None, None], x, factor[:, None, None])
