"""Returns what its product makes, whose columns lie together: the reference's rows do."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, covariance, right, near, far):
        solved = torch.linalg.solve(covariance.mT, right)
        return solved.mT.contiguous().mT, (right - near) / (far - near)
