"""Maps its input a second time, and returns a view of it there, which is at no input's address.
It lies in another order than the reference's, so it is copied on the clock."""

import torch.nn as nn

# @include elsewhere


class ModelNew(nn.Module):
    def forward(self, x):
        return elsewhere(x).t()
