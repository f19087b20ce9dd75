"""SQLite's file system under the log's writer: what it did is recorded, and may be made to fail.

The log's own code runs unchanged: its pragmas, its schema, its transactions and its way of
closing. Only the connection that its ``opener`` gives is APSW's, because the standard
library has no way to a VFS.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

__all__ = ["Op", "Recording", "open_through"]


class Op(NamedTuple):
    """``what``: open, write, truncate, sync, delete, or committed (up to seq ``at``)."""

    what: str
    name: str = ""
    at: int = 0
    data: bytes = b""
    synced: bool = False
    """Of an open: the first sync of this file syncs its directory too, as SQLite's does.
    Of a delete: the directory was synced."""


class Recording(apsw.VFS):
    """A VFS called ``name`` over the usual one. ``before`` sees each operation and may raise."""

    def __init__(self, name: str, before: Callable[[Op], None] = lambda op: None) -> None:
        super().__init__(name, "")
        self.name, self.before = name, before
        self.ops: list[Op] = []

    def note(self, op: Op) -> None:
        self.before(op)
        self.ops.append(op)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.note(Op("delete", Path(filename).name, synced=syncdir))
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, vfs: Recording, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._vfs, self._name = vfs, Path(path).name
        journal = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
        if flags[0] & apsw.SQLITE_OPEN_CREATE:
            vfs.note(Op("open", self._name, synced=bool(flags[0] & journal)))
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._vfs.note(Op("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._vfs.note(Op("truncate", self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        # Through to the disk it need not go: the disk is made up afterwards.
        self._vfs.note(Op("sync", self._name))


class _Rows(list[Any]):
    """All rows at once, so that what fails does so in ``execute``."""

    def fetchone(self) -> Any:
        return self.pop(0) if self else None

    def fetchall(self) -> list[Any]:
        return self


class _Connection(apsw.Connection):
    """APSW's, with what the log uses of ``sqlite3.Connection``."""

    recording: Recording
    newest = 0

    def execute(self, sql: str, values: Any = None) -> Any:  # type: ignore[override]
        try:
            rows = _Rows(super().execute(sql, values))
        except (apsw.Error, OSError) as error:
            raise sqlite3.OperationalError(str(error)) from error
        if sql.startswith("INSERT INTO events"):
            self.newest = values[0]
        elif sql == "COMMIT":
            self.recording.note(Op("committed", at=self.newest))
        return rows

    def executescript(self, sql: str) -> Any:
        return self.execute(sql)


def open_through(
    recording: Recording, *, checkpoint_pages: int = 1000
) -> Callable[[str], sqlite3.Connection]:
    """An ``opener`` for ``LogWriter``."""

    def opener(uri: str) -> sqlite3.Connection:
        how = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        try:
            connection = _Connection(uri, flags=how, vfs=recording.name)
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from error
        connection.recording = recording
        connection.set_busy_timeout(5000)
        connection.execute(f"PRAGMA wal_autocheckpoint={checkpoint_pages}")
        return connection  # type: ignore[return-value]

    return opener
