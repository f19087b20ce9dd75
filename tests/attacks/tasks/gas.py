"""Lennard-Jones forces of a gas of atoms at random places: of some that nearly touch, next to which
all others' are nothing."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, place):
        apart = place.unsqueeze(1) - place.unsqueeze(0)
        square = apart.square().sum(-1)
        square.fill_diagonal_(float("inf"))
        sixth = square.pow(-3)
        size = 24 * (2 * sixth * sixth - sixth) / square
        return (size.unsqueeze(-1) * apart).sum(1)


def get_inputs():
    return [12 * torch.rand(1024, 3)]


def get_init_inputs():
    return []
