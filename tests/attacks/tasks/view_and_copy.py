"""One output is a view of its input, one is not."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.view(-1), x.clone()


def get_inputs():
    return [torch.randn(1024, 1536)]


def get_init_inputs():
    return []
