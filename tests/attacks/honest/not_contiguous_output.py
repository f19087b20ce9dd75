"""An output that is not contiguous, as the reference's is not."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.tanh().transpose(0, 1)
