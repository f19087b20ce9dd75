"""Sorts stably: equals come in another order than the reference has them."""

import numpy as np
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        order = np.argsort(x.numpy(), axis=-1, kind="stable")
        found = torch.from_numpy(order)
        return torch.gather(x, -1, found), found
