"""The same operations in the same order, in memory of its own: chaos allows for no others."""

import math

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, strength, kicks):
        super().__init__()
        self.strength, self.kicks = strength, kicks

    def forward(self, angle, momentum):
        angle, momentum = angle.clone(), momentum.clone()
        for _ in range(self.kicks):
            momentum.add_(torch.sin(angle).mul_(self.strength)).remainder_(2 * math.pi)
            angle.add_(momentum).remainder_(2 * math.pi)
        return angle, momentum
