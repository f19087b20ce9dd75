"""The leaderboard's order: correct nodes by score; of equals, the oldest first.

Kept in blocks, because an insertion into one long list moves what is behind it: with
100,000 nodes that costs as much as the rest of a decision.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

__all__ = ["Ranking"]


class Ranking:
    """Grows only: a verdict is never taken back."""

    def __init__(self, *, block: int = 512) -> None:
        self._block = block
        self._blocks: list[list[tuple[float, int]]] = [[]]
        self._slowest: list[tuple[float, int]] = []
        """The last entry of each block but the last, whose end is open."""

    def add(self, score_ms: float, node: int) -> None:
        entry = (score_ms, node)
        at = bisect_left(self._slowest, entry)
        block = self._blocks[at]
        insort(block, entry)
        if len(block) > 2 * self._block:
            self._blocks[at : at + 1] = [block[: self._block], block[self._block :]]
            self._slowest.insert(at, block[self._block - 1])

    @property
    def first(self) -> int | None:
        """The fastest; None while there is none."""
        head = self._blocks[0]
        return head[0][1] if head else None

    def __iter__(self) -> Iterator[int]:
        """Node ids, fastest first."""
        return (node for block in self._blocks for _, node in block)
