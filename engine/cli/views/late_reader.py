"""Reads the log that this process is writing."""

from __future__ import annotations

from pathlib import Path

from events.reader import LogReader

__all__ = ["LateReader"]


class LateReader:
    """Opened when first needed, if ever."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader: LogReader | None = None

    def __enter__(self) -> LateReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.connection.close()

    def text(self, sha256: str) -> str:
        if self._reader is None:
            self._reader = LogReader(self._path)
        return self._reader.text(sha256)
