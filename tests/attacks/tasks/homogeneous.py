"""Points in homogeneous coordinates, moved by affine maps."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, points, maps):
        moved = points @ maps.mT
        return moved[..., :3] / moved[..., 3:]


def get_inputs():
    points = torch.cat([torch.randn(16, 1024, 3), torch.ones(16, 1024, 1)], dim=-1)
    maps = torch.cat(
        [torch.randn(16, 3, 4), torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(16, 1, 4)], 1
    )
    return [points, maps]


def get_init_inputs():
    return []
