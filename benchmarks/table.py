"""A table that grows while it is measured, and says meanwhile what it waits for."""

from __future__ import annotations

import sys
import time

__all__ = ["Table"]

_WIDTHS = (44, 24, 40)


class Table:
    """Rows go to standard output as soon as they exist, progress to standard error.

    ``rows`` are those that there are: measure, goal, measured, peer.
    """

    def __init__(self, title: str, last: str = "peer") -> None:
        self.rows: list[tuple[str, str, str, str]] = []
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()
        print(f"\n{title}")
        self._print("measure", "goal", "measured", last)
        self._print(*("-" * width for width in (*_WIDTHS, 24)))

    def row(self, name: str, goal: str, measured: str, peer: str = "-") -> None:
        self.rows.append((name, goal, measured, peer))
        self._print(name, goal, measured, peer)

    def _print(self, name: str, goal: str, measured: str, peer: str) -> None:
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        told = (name, goal, measured)
        cells = [text.ljust(width) for text, width in zip(told, _WIDTHS, strict=True)]
        print("  ".join([*cells, peer]).rstrip(), flush=True)

    @staticmethod
    def verdict(met: bool) -> str:
        """A goal's last cell."""
        return "met" if met else "MISSED"

    def progress(self, doing: str) -> None:
        """What is being measured: one line that is written over, or lines where it can't be."""
        line = f"{time.monotonic() - self._began:4.0f} s  {doing}"
        if self._terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
