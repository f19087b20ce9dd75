"""Returns two views of what it computed: who changes one of them changes the other."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return y[:, :-1], y[:, 1:]
