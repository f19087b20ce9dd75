"""Budget for reading a source. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_MAX_VISITS = 100_000  # a source of 15 KB takes some 20,000


class TooMuch(Exception):
    """Reading a source would take too long."""


class Visits:
    """Visits of nodes, made and allowed: a count and no time, so that a source has the same labels
    on every machine."""

    def __init__(self, most: int = _MAX_VISITS) -> None:
        self.most = most
        self.made = 0

    def spend(self, number: int) -> None:
        """Raises ``TooMuch``."""
        self.made += number
        if self.made > self.most:
            raise TooMuch

    def walk(self, *parts: ast.AST) -> Iterator[ast.AST]:
        """Each part, and all that is in it. Raises ``TooMuch``."""
        for part in parts:
            for node in ast.walk(part):
                self.spend(1)
                yield node
