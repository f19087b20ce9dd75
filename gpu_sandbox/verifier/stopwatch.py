"""Where the time of a verdict goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Spent"]


class Spent:
    """Seconds by name: of what is inside of something else, only its own name's."""

    def __init__(self) -> None:
        self.timings: dict[str, float] = {}
        self._names: list[str] = []
        self._since = 0.0

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Adds what passes meanwhile to ``name``, however it is left."""
        self._charge()
        self._names.append(name)
        try:
            yield
        finally:
            self._charge()
            self._names.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._names:
            name = self._names[-1]
            self.timings[name] = self.timings.get(name, 0.0) + now - self._since
        self._since = now
