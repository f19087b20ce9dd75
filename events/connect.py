"""Opening the file: recognise it, choose safe settings, and deny what must not happen.

A log has exactly one read-write connection, in one process (``events.lock``); SQLite
before 3.51.3 can lose writes when two connections write or checkpoint one WAL file.
Readers open it read-only while it is written.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from events.errors import LogDamaged, LogError, LogUnreadable, NewerFormat, NotALog, OlderFormat
from events.lock import WriterLock

__all__ = [
    "APPLICATION_ID", "FORMAT", "PAGE_BYTES", "Opener", "beside", "connect_read_only",
    "connect_read_write", "open_sqlite", "schema_sql", "unreadable", "views_sql",
]  # fmt: skip

APPLICATION_ID = 0x5354524B  # "STRK"
FORMAT = 2
"""Of files that are written. One of format 1, which engine 0.1 wrote, is read."""
PAGE_BYTES = 8192

Opener = Callable[[str], sqlite3.Connection]
"""Opens a SQLite URI in autocommit; tests give one that fails, kills or remembers."""

_NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "fuse.sshfs"}

_DENIED_FUNCTION = "not authorized to use function"
_READER_PRAGMAS = {"integrity_check", "foreign_key_check", "table_info"}

_READER_MAY = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_TRANSACTION,
}
_WRITER_MAY = {
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_FUNCTION,
}


C = TypeVar("C", bound=sqlite3.Connection)


def open_sqlite(uri: str) -> sqlite3.Connection:
    return _connect(uri, sqlite3.Connection)


def _connect(uri: str, factory: type[C]) -> C:
    return sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0, factory=factory
    )


class _Reading(sqlite3.Connection):
    """Can refuse statements that do more than read the log: mode=ro alone lets one
    attach, and write, another file.

    SQLite takes any exception in an authorizer, and so a Ctrl-C, for a refusal.
    """

    _refused = False

    def guard(self) -> None:
        self.set_authorizer(self._allow)

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        """Raises ``KeyboardInterrupt`` where that came while SQLite asked what is allowed."""
        self._refused = False
        try:
            return super().execute(sql, values)
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)  # none where Python itself complains
            # Of functions it says so in words alone.
            denied = code == sqlite3.SQLITE_AUTH or str(error).startswith(_DENIED_FUNCTION)
            if denied and not self._refused:
                raise KeyboardInterrupt from error
            raise

    def _allow(self, action: int, name: str | None, *_: str | None) -> int:
        if action in _READER_MAY or (action == sqlite3.SQLITE_PRAGMA and name in _READER_PRAGMAS):
            return sqlite3.SQLITE_OK
        self._refused = True
        return sqlite3.SQLITE_DENY


def _open_for_reading(uri: str) -> _Reading:
    return _connect(uri, _Reading)


def connect_read_write(path: Path, opener: Opener = open_sqlite) -> sqlite3.Connection:
    """Open or create the log for its one writer. Raises ``LogUnreadable`` and its kin."""
    _refuse_network_filesystem(path)
    connection = _open(f"{path.absolute().as_uri()}?mode=rwc", path, opener)
    try:
        if _is_blank(connection):
            # One transaction in the default journal mode, before WAL: a kill leaves either
            # a blank file, which is made anew, or the whole schema in the file itself.
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            connection.executescript(
                f"BEGIN IMMEDIATE; {schema_sql(FORMAT)}{views_sql()}"
                f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT}; COMMIT;"
            )
        if _recognise(connection, path) < FORMAT:
            raise OlderFormat(
                f"{path}: a file of format 1, which engine 0.1 wrote and this one only reads: name"
                " a new file"
            )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        # A reader may make the -wal grow; once it has gone, the space is given back.
        connection.execute(f"PRAGMA journal_size_limit={64 << 20}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.set_authorizer(_writer_authorizer)
    except sqlite3.Error as error:
        connection.close()
        raise unreadable(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def connect_read_only(path: Path, *, views: bool = False) -> sqlite3.Connection:
    """Open an existing log for reading, also while it is written.

    ``views``: with this version's views, whatever the file itself holds. Raises
    ``LogUnreadable``, ``NotALog`` or ``NewerFormat``.
    """
    if not path.is_file():
        raise LogUnreadable(f"{path}: no such log")
    _roll_back(path)
    # In a directory that can't be written a reader can't create the -shm file that WAL
    # needs; a log that was closed cleanly has no -wal and is safe to read as immutable.
    immutable = not os.access(path.parent, os.W_OK) and not beside(path, "-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
    connection = _open(uri, path, _open_for_reading)
    try:
        _recognise(connection, path)
        if views:
            connection.executescript(views_sql(temporary=True))
        connection.guard()
    except sqlite3.Error as error:
        connection.close()
        raise unreadable(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def schema_sql(format_: int) -> str:
    """The statements that make a log's tables and guards."""
    parts = ("schema.sql", f"blobs/blobs_{format_}.sql")
    return "".join(resources.files("events").joinpath(part).read_text() for part in parts)


def views_sql(*, temporary: bool = False) -> str:
    """The statements that make the views, for the file or for one connection."""
    sql = resources.files("events").joinpath("views.sql").read_text()
    return sql.replace("CREATE VIEW", "CREATE TEMP VIEW") if temporary else sql


def _open(uri: str, path: Path, opener: Callable[[str], C]) -> C:
    try:
        return opener(uri)
    except sqlite3.Error as error:
        raise LogUnreadable(f"{path}: {error}") from error


def _roll_back(path: Path) -> None:
    """A kill while the journal mode changes leaves a journal that no reader can roll back."""
    if not beside(path, "-journal").exists():
        return
    try:
        lock = WriterLock(path)
    except LogError:
        return  # its writer is at work; or we may not write here, and SQLite says so
    try:
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with contextlib.closing(_open(uri, path, open_sqlite)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    finally:
        lock.release()


def _recognise(connection: sqlite3.Connection, path: Path) -> int:
    """The file's format. Raises ``NotALog`` and ``NewerFormat``."""
    try:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (format_,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    if application_id != APPLICATION_ID:
        raise NotALog(f"{path}: a SQLite file, but not an engine log")
    if format_ > FORMAT:
        raise NewerFormat(
            f"{path}: log format {format_}, this engine reads up to {FORMAT}: update engine"
        )
    return int(format_)


def _is_blank(connection: sqlite3.Connection) -> bool:
    """A new file, or one whose making was cut off."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(application_id == 0 and objects == 0)


def unreadable(path: Path, error: sqlite3.Error) -> LogError:
    """What SQLite says of a file that it can't work with, for the user."""
    text = str(error)
    if "not a database" in text:
        return NotALog(f"{path}: not an engine log (not a SQLite file)")
    if "malformed" in text:
        return LogDamaged(f"{path}: {text}")
    if "readonly" in text:
        return LogUnreadable(f"{path}: the log can't be written: {text}")
    return LogUnreadable(f"{path}: {text}")


def _refuse_network_filesystem(path: Path) -> None:
    """WAL and flock are unsafe over a network: refuse rather than corrupt."""
    kind = _filesystem(path.absolute().parent)
    if kind in _NETWORK_FILESYSTEMS:
        raise LogUnreadable(
            f"{path}: on a {kind} file system, where SQLite's locks can't be trusted;"
            " put the log on a local disk"
        )


def _filesystem(directory: Path) -> str:
    best, kind = "", ""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return kind
    for line in lines:
        _, mount, filesystem, *_ = line.split(" ")
        inside = directory.is_relative_to(mount.replace("\\040", " "))
        if inside and len(mount) >= len(best):
            best, kind = mount, filesystem
    return kind


def beside(path: Path, suffix: str) -> Path:
    """The file that SQLite keeps beside a log: ``-wal``, ``-shm`` or ``-journal``."""
    path = path.resolve()  # SQLite names its files after what a link points to
    return path.with_name(path.name + suffix)


def _writer_authorizer(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _WRITER_MAY else sqlite3.SQLITE_DENY
