"""Points as a camera sees them that moves by little from where it was."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, poses, points):
        back = torch.linalg.inv(poses)
        return points @ back[:, :3, :3].mT + back[:, None, :3, 3]


def get_inputs():
    cross = torch.zeros(64, 3, 3)
    x, y, z = 5e-4 * torch.randn(3, 64)
    cross[:, 0, 1], cross[:, 0, 2], cross[:, 1, 2] = -z, y, -x
    poses = torch.eye(4).repeat(64, 1, 1)
    poses[:, :3, :3] = torch.linalg.matrix_exp(cross - cross.mT)
    poses[:, :3, 3] = torch.randn(64, 3)
    return [poses, torch.randn(64, 512, 3)]


def get_init_inputs():
    return []
