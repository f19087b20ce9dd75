"""What an attempt is worth, in 0..1, as the tree search and the choice of planners want it."""

from __future__ import annotations

__all__ = ["UNIT", "reward"]

UNIT = 2**32
"""A reward of one. Sums are of integers: neither order nor machine can change them."""


def reward(runtime_ms: float | None, base_ms: float | None) -> int:
    """s / (1 + s) of the speedup s over ``base_ms``, in ``UNIT``; 0 for a failure."""
    if runtime_ms is None or base_ms is None:
        return 0
    return round(UNIT * (base_ms / (base_ms + runtime_ms)))
