"""Claims 55 % of what events read of a kernel that is hardly more than its launch.

What a gate sees of calls on a warm cache is a third of that, so it leaves room for such a claim;
but filling the output takes nearly as long as the call.
"""

import torch
import torch.nn as nn

SHARE = 0.55
# @include shaved


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.sin(x)
