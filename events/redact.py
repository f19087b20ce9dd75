"""A copy of a log without its texts: every blob is a tombstone under its old name.

Events are copied as they are, and their hashes cover the names of blobs, not the blobs: the
copy's chains are the original's. It replays, because what was parsed from texts is in
events. What stays readable is what bodies hold: settings, figures, names, one-line reasons.
A name is the sha256 of the text: whoever guesses a text can tell that it was there.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from events.connect import connect_read_write
from events.errors import LogDamaged, LogUnreadable
from events.reader import LogReader
from events.rows import REDACTED

__all__ = ["Redaction", "redact"]

_TABLES = {
    "runs": "run_id, uid, created_us, parent_run_id, parent_seq",
    "events": "seq, run_id, run_seq, epoch, kind, type, ver, ts_us, body, hash",
    "event_blobs": "seq, pos, name, sha256",
}


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied, and how many texts were left behind."""

    runs: int
    events: int
    blobs: int
    bytes_left_out: int


def redact(log: LogReader, path: Path) -> Redaction:
    """Write the redacted copy of ``log`` to ``path``, which must not exist.

    Raises ``LogUnreadable`` where it can't be written, ``LogDamaged`` for a log whose rows
    don't fit together.
    """
    if path.exists():
        raise LogUnreadable(f"{path}: exists already; name a new file")
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        with _open(part) as copy, _snapshot(log.connection) as source:
            copied = _copy(source, copy)
        part.rename(path)
    except sqlite3.IntegrityError as error:
        raise LogDamaged(f"{log.path}: can't be copied: {error}") from error
    except (sqlite3.Error, OSError) as error:
        raise LogUnreadable(f"{path}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return copied


def _copy(source: sqlite3.Connection, copy: sqlite3.Connection) -> Redaction:
    """In the order of writing: the guards of the copy take nothing else."""
    copy.execute("BEGIN IMMEDIATE")
    runs = _insert_all(copy, "runs", source.execute(f"SELECT {_TABLES['runs']} FROM runs"))
    copy.executemany(
        f"INSERT INTO blobs (id, sha256, codec, size, data) VALUES (?, ?, '{REDACTED}', ?, x'')",
        source.execute("SELECT id, sha256, size FROM blobs ORDER BY id"),
    )
    events = 0
    for event in source.execute(f"SELECT {_TABLES['events']} FROM events ORDER BY seq"):
        events += _insert_all(copy, "events", [event])
        attached = source.execute(
            f"SELECT {_TABLES['event_blobs']} FROM event_blobs WHERE seq = ? ORDER BY pos",
            (event[0],),
        )
        _insert_all(copy, "event_blobs", attached)
    copy.execute("COMMIT")
    blobs, size = copy.execute("SELECT count(*), coalesce(sum(size), 0) FROM blobs").fetchone()
    return Redaction(runs=runs, events=events, blobs=blobs, bytes_left_out=size)


def _insert_all(copy: sqlite3.Connection, table: str, rows: Iterable[Sequence[object]]) -> int:
    columns = _TABLES[table]
    marks = ", ".join("?" * (columns.count(",") + 1))
    return copy.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows).rowcount


@contextlib.contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """A new log; when it is closed, one plain file."""
    connection = connect_read_write(path)
    try:
        yield connection
        connection.set_authorizer(None)
        connection.execute("PRAGMA journal_mode=DELETE")
    finally:
        connection.close()


@contextlib.contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        connection.execute("ROLLBACK")
