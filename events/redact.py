"""A copy of a log without its texts: every blob is a tombstone under its old name.

Events are copied as they are, and their hashes cover the names of blobs, not the blobs: the
copy's chains are the original's. It replays, because what was parsed from texts is in
events. What stays readable is what bodies hold: settings, figures, names, one-line reasons.
A name is the sha256 of the text: a guess of a text can be confirmed.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from events.blobs.store import blobs_of
from events.connect import connect_read_write
from events.envelope import Blob
from events.errors import LogDamaged, LogUnreadable
from events.reader import LogReader
from events.rows import EventRow, NewEvent, insert_events, insert_run

__all__ = ["Redaction", "redact"]


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
    texts = blobs_of(copy)
    runs = source.execute(
        "SELECT run_id, uid, created_us, parent_run_id, parent_seq FROM runs"
    ).fetchall()
    for run in runs:
        insert_run(copy, *run)
    for sha, size in source.execute("SELECT sha256, size FROM blobs ORDER BY id"):
        texts.add_tombstone(sha, size)
    events = 0
    columns = ", ".join(EventRow.__struct_fields__)
    for row in source.execute(f"SELECT {columns} FROM events ORDER BY seq"):
        event = EventRow(*row)
        names = source.execute(
            "SELECT name, sha256 FROM event_blobs WHERE seq = ? ORDER BY pos", (event.seq,)
        )
        tombstones = [(Blob(name, b""), sha) for name, sha in names]
        insert_events(copy, texts, [NewEvent(event, tombstones)])
        events += 1
    copy.execute("COMMIT")
    blobs, size = copy.execute("SELECT count(*), coalesce(sum(size), 0) FROM blobs").fetchone()
    return Redaction(runs=len(runs), events=events, blobs=blobs, bytes_left_out=size)


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
