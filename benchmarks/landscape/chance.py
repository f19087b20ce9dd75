"""Chance, out of the core's own seeded streams: the same seed gives the same landscape."""

from __future__ import annotations

from statistics import NormalDist

from engine.core.draws import DrawKey, draw

__all__ = ["normal", "pick", "uniform"]

_FINE = 2**32
_NORMAL = NormalDist()


def uniform(seed: int, purpose: str, index: int) -> float:
    """In the open interval 0..1."""
    key = DrawKey(seed, "landscape")
    return (draw(key, purpose, index, _FINE) + 0.5) / _FINE


def normal(seed: int, purpose: str, index: int) -> float:
    """Standard normal."""
    return _NORMAL.inv_cdf(uniform(seed, purpose, index))


def pick(weights: list[float], at: float) -> int:
    """The index in which ``at``, in 0..1, falls; proportional to the weights."""
    left = at * sum(weights)
    for index, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return index
    return len(weights) - 1
