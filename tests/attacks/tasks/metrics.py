"""The loss of each sample, and plain numbers of all, one of which is a million times the others."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, prediction, target):
        error = prediction - target
        squares = error.square()
        numbers = {
            "sse": squares.sum().item(),
            "mae": error.abs().mean().item(),
            "bias": error.mean().item(),
            "worst": error.abs().max().item(),
        }
        return squares.mean(dim=1), numbers


def get_inputs():
    return [torch.randn(512, 1024), torch.randn(512, 1024)]


def get_init_inputs():
    return []
