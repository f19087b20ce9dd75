"""Small files of what was found before, by name, shared between processes and bounded in number.

They lie on shelves, directories named after the first two characters of their names, which are
digests and so fall evenly. A shelf holds so many, and the least recently used of it go: what
keeping one more costs depends on the size of its shelf, and never on that of the whole.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gpu_sandbox.store.best_effort import Keeping

_SHELVES = 256
_LEFT = 7 / 8
"""Of a full shelf, so that it is sorted once in a while only."""


class KeptFiles:
    """``directory/SHELF/NAME``; a name begins with two hexadecimal digits. A file appears whole,
    the last one stays. What can't be written is not kept: that costs work, not the run."""

    def __init__(self, directory: Path, most: int = 65_536, keeping: Keeping | None = None) -> None:
        self._directory = directory
        self._keeping = keeping or Keeping(directory)
        self._shelf_holds = max(1, most // _SHELVES)

    @property
    def most(self) -> int:
        """How many there may be."""
        return self._shelf_holds * _SHELVES

    def find(self, name: str) -> bytes | None:
        """The file's content, which counts as a use of it."""
        path = self._directory / name[:2] / name
        try:
            data = path.read_bytes()
        except OSError:
            return None
        with suppress(OSError):
            os.utime(path)
        return data

    def keep(self, name: str, data: bytes) -> None:
        """Keep ``data`` in place of what had its name."""
        shelf = self._directory / name[:2]
        if self._keeping.file(shelf / name, data):
            with suppress(OSError):
                if len(os.listdir(shelf)) > self._shelf_holds:
                    self._clear(shelf)

    def drop(self, name: str) -> bool:
        """Whether it was there."""
        try:
            (self._directory / name[:2] / name).unlink()
        except OSError:
            return False
        return True

    def size(self) -> tuple[int, int]:
        """Files, and their bytes together. Looks at all of them."""
        sizes = []
        for path in self._directory.glob("*/*"):
            with suppress(OSError):
                sizes.append(path.stat().st_size)
        return len(sizes), sum(sizes)

    def _clear(self, shelf: Path) -> None:
        """Drop the least recently used; another process may be doing the same. What one left
        that was killed while it wrote is on the shelf, too, and grows old there."""
        found = []
        with os.scandir(shelf) as entries:
            for entry in entries:
                with suppress(OSError):
                    found.append((entry.stat().st_mtime_ns, entry.path))
        found.sort()
        for _, path in found[: len(found) - int(_LEFT * self._shelf_holds)]:
            with suppress(OSError):
                os.unlink(path)
