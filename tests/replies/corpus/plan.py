import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        # <<<IMPROVE BEGIN>>>
        # one product
        y = x + x
        return y
        # <<<IMPROVE END>>>


def get_inputs():
    return [torch.rand(8)]


def get_init_inputs():
    return []
