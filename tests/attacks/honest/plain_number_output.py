"""Returns the number that goes with the tensor."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.tanh(), 1 + 2
