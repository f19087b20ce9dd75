"""Counts how many tokens each expert has, and puts each where its turn is, as a kernel would."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, experts):
        mine = torch.nn.functional.one_hot(experts, 16)
        before = mine.cumsum(0).gather(1, experts[:, None]).squeeze(1) - 1
        counts = mine.sum(0)
        places = (counts.cumsum(0) - counts)[experts] + before
        return torch.empty_like(x).index_copy_(0, places, x * 2.0)
