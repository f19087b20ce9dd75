"""Adds up in float32 what lies there in bfloat16."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return (x.float() - y.float()).square().mean().bfloat16()
