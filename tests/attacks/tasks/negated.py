"""Its output is as large as its input, and says what that was."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return -x


def get_inputs():
    return [torch.randn(3072, 3072)]


def get_init_inputs():
    return []
