"""Writing to the cache, where that can be done: what can't be kept costs work, never a verdict."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType


class Keeping:
    """Of one sandbox and its cache; the user is told once why something was not kept."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._why = ""
        self._told = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """A disk that is full, or may not be written to, ends the block and nothing else."""
        if not isinstance(error, OSError):
            return False
        self._why = self._why or error.strerror or str(error)
        return True

    def file(self, path: Path, data: bytes) -> bool:
        """Keep ``data``, which appears whole. Returns whether that could be done."""
        fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        with self:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                fresh.write_bytes(data)
                fresh.replace(path)
            except OSError:
                with suppress(OSError):
                    fresh.unlink()
                raise
            return True
        return False

    def notes(self) -> list[str]:
        """What the user should know and was not told yet."""
        if not self._why or self._told:
            return []
        self._told = True
        return [f"what is built and found out can't be kept in {self._cache}: {self._why}"]
