"""Random integers out of sha256 streams keyed by (seed, purpose, attempt).

A draw added for a new purpose shifts no other draw, and no Python version changes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

__all__ = ["COIN", "draw", "sample"]

COIN = 2**32
"""A coin is a draw below this; heads when it is below epsilon × COIN."""


def _stream(seed: int, purpose: str, attempt: int) -> Iterator[int]:
    """64-bit integers, for ever."""
    counter = 0
    while True:
        block = hashlib.sha256(f"draw-1/{seed}/{purpose}/{attempt}/{counter}".encode()).digest()
        for start in range(0, 32, 8):
            yield int.from_bytes(block[start : start + 8], "big")
        counter += 1


def _below(stream: Iterator[int], bound: int) -> int:
    # Rejection keeps it uniform: the last partial range of 2**64 is drawn again.
    limit = 2**64 - 2**64 % bound
    return next(value for value in stream if value < limit) % bound


def draw(seed: int, purpose: str, attempt: int, bound: int) -> int:
    """A uniform integer in 0..bound-1. ``bound`` ≥ 1."""
    return _below(_stream(seed, purpose, attempt), bound)


def sample(seed: int, purpose: str, attempt: int, population: int, size: int) -> list[int]:
    """``size`` distinct indices below ``population``, ascending, every subset as likely."""
    stream = _stream(seed, purpose, attempt)
    chosen: set[int] = set()
    # Floyd's method: exactly ``size`` draws, no list of the population.
    for top in range(population - size, population):
        value = _below(stream, top + 1)
        chosen.add(top if value in chosen else value)
    return sorted(chosen)
