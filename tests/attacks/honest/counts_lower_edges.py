"""Counts the edges that are lower: right where they are sorted, and only there."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, edges, x):
        return (edges < x.unsqueeze(-1)).sum(-1)
