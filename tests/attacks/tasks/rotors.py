"""Kicked rotors (the standard map): an ensemble after 40 kicks. Rounding decides where each is."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, strength, kicks):
        super().__init__()
        self.strength, self.kicks = strength, kicks

    def forward(self, angle, momentum):
        for _ in range(self.kicks):
            momentum = torch.remainder(momentum + self.strength * torch.sin(angle), 2 * math.pi)
            angle = torch.remainder(angle + momentum, 2 * math.pi)
        return angle, momentum


def get_inputs():
    return [2 * math.pi * torch.rand(1 << 14), 2 * math.pi * torch.rand(1 << 14)]


def get_init_inputs():
    return [8.0, 40]
