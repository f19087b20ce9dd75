"""Random integers out of sha256 streams keyed by (seed, task, purpose, attempt).

A draw added for a new purpose shifts no other draw, and no Python version changes them. Runs of
a suite share a seed: the task keeps them from exploring at the same attempts (ADR 36).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

__all__ = ["COIN", "DrawKey", "draw", "sample"]

COIN = 2**32
"""A coin is a draw below this; heads when it is below epsilon × COIN."""


class DrawKey(msgspec.Struct, frozen=True):
    """What all draws of a run are keyed by; ``task`` is the digest of the task's source."""

    seed: int
    task: str


def _stream(key: DrawKey, purpose: str, attempt: int) -> Iterator[int]:
    """64-bit integers, for ever."""
    prefix = f"draw-2/{key.seed}/{key.task}/{purpose}/{attempt}"
    counter = 0
    while True:
        block = hashlib.sha256(f"{prefix}/{counter}".encode()).digest()
        for start in range(0, 32, 8):
            yield int.from_bytes(block[start : start + 8], "big")
        counter += 1


def _below(stream: Iterator[int], bound: int) -> int:
    # Rejection keeps it uniform: the last partial range of 2**64 is drawn again.
    limit = 2**64 - 2**64 % bound
    return next(value for value in stream if value < limit) % bound


def draw(key: DrawKey, purpose: str, attempt: int, bound: int) -> int:
    """A uniform integer in 0..bound-1. ``bound`` ≥ 1."""
    return _below(_stream(key, purpose, attempt), bound)


def sample(key: DrawKey, purpose: str, attempt: int, population: int, size: int) -> list[int]:
    """``size`` distinct indices below ``population``, ascending, every subset as likely."""
    stream = _stream(key, purpose, attempt)
    chosen: set[int] = set()
    # Floyd's method: exactly ``size`` draws, no list of the population.
    for top in range(population - size, population):
        value = _below(stream, top + 1)
        chosen.add(top if value in chosen else value)
    return sorted(chosen)
