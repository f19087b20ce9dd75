"""Returns a view of its input where the reference does so, too."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.t(), x.tanh()
