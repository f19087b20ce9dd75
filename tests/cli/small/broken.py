"""A canned candidate: broken."""

from torch import nn

raise RuntimeError("this does not import")


class ModelNew(nn.Module):
    def forward(self, x):
        return x
