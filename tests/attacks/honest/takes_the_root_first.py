"""Does not look whether there is a factor, and takes the logarithm of its square."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, scatter):
        factor, _ = torch.linalg.cholesky_ex(scatter)
        return factor.diagonal(dim1=-2, dim2=-1).square().log().sum(-1)
