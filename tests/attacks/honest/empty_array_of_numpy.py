"""One output has no elements, and is an array of numpy's: all of its strides are 0."""

import numpy as np
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.tanh(), torch.from_numpy(np.empty((x.shape[0], 0), dtype=np.float32))
