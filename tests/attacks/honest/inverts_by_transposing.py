"""A rotation's inverse is its transpose; the reference solves for it."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, poses, points):
        return (points - poses[:, None, :3, 3]) @ poses[:, :3, :3]
