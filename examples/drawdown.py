"""Scan, then reduce: the largest drawdown of many price paths.

Each row holds the log returns of one path. The running sum is the log price, the running
maximum of that the high-water mark; asked for are the final log price, the largest fall
below the mark, and the mean log price. Eager writes two scans of 8 MB (and the indices
of `cummax`); one pass over the returns with four scalars of state is enough.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Per row: [last, max(cummax(c) - c), mean(c)] with c = cumsum(returns)."""

    def forward(self, returns: torch.Tensor) -> torch.Tensor:
        """returns (paths, steps) -> (paths, 3)."""
        price = torch.cumsum(returns, dim=-1)
        mark = torch.cummax(price, dim=-1).values
        fall = (mark - price).amax(dim=-1)
        return torch.stack([price[:, -1], fall, price.mean(dim=-1)], dim=-1)


paths = 2048
steps = 1024


def get_inputs():
    return [torch.randn(paths, steps) * 0.1]


def get_init_inputs():
    return []
