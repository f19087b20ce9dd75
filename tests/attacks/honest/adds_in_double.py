"""Adds in another order, and in float64."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return [float(one) for one in x.tanh().double().sum(-1)], x[0]
