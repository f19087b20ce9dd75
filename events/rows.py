"""Rows of the log: how runs and events are written, and where each run's next event goes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache

import msgspec

from events.blobs.store import Blobs
from events.envelope import Blob, genesis_hash
from events.errors import LogDamaged

__all__ = [
    "EventRow",
    "NewEvent",
    "Tail",
    "hash_at",
    "insert_events",
    "insert_run",
    "positions",
]

_ROWS_A_STATEMENT = 64


class EventRow(msgspec.Struct, frozen=True):
    """An event as the file stores it; its fields are the columns, in order."""

    seq: int
    run_id: int
    run_seq: int
    epoch: int
    kind: str
    type: str
    ver: int
    ts_us: int
    body: str
    hash: bytes


class NewEvent(msgspec.Struct, frozen=True):
    """An event to be written, with its blobs, each given with its sha256."""

    row: EventRow
    blobs: Sequence[tuple[Blob, str]]


class Tail(msgspec.Struct):
    """Where a run's next event goes."""

    run_seq: int
    hash: bytes


def insert_run(
    connection: sqlite3.Connection,
    run_id: int,
    uid: str,
    created_us: int,
    parent_run_id: int | None = None,
    parent_seq: int | None = None,
) -> None:
    _insert(connection, "runs", (run_id, uid, created_us, parent_run_id, parent_seq))


def insert_events(connection: sqlite3.Connection, blobs: Blobs, events: Sequence[NewEvent]) -> None:
    """Write the events in order, with few statements.

    A thread that runs one waits afterwards for Python's lock, which the thread that goes on
    appending gives away seldom.
    """
    begin = 0
    for end, event in enumerate(events, 1):
        # A blob is attached to the newest event, so that one ends its statement.
        if event.blobs or end == len(events):
            _insert_rows(connection, [event.row for event in events[begin:end]])
            blobs.attach(event.row.seq, event.blobs)
            begin = end


def _insert_rows(connection: sqlite3.Connection, rows: Sequence[EventRow]) -> None:
    # Powers of two, so that SQLite prepares a handful of statements and no more.
    begin = 0
    while begin < len(rows):
        size = min(_ROWS_A_STATEMENT, 1 << ((len(rows) - begin).bit_length() - 1))
        part = rows[begin : begin + size]
        values = [value for row in part for value in msgspec.structs.astuple(row)]
        connection.execute(_insert_sql("events", len(EventRow.__struct_fields__), size), values)
        begin += size


_COLUMNS = {
    "runs": "run_id, uid, created_us, parent_run_id, parent_seq",
    "events": ", ".join(EventRow.__struct_fields__),
}


def _insert(connection: sqlite3.Connection, table: str, values: Sequence[object]) -> None:
    connection.execute(_insert_sql(table, len(values)), values)


@cache
def _insert_sql(table: str, columns: int, rows: int = 1) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"INSERT INTO {table} ({_COLUMNS[table]}) VALUES {', '.join([row] * rows)}"


def positions(connection: sqlite3.Connection) -> tuple[int, int, dict[int, Tail]]:
    """The newest seq, the newest epoch, and each run's tail. Raises ``LogDamaged``."""
    seq, epoch = connection.execute(
        "SELECT coalesce(max(seq), 0), coalesce(max(epoch), 0) FROM events"
    ).fetchone()
    tails: dict[int, Tail] = {}
    for run_id, uid, created_us, parent, parent_seq in connection.execute(
        "SELECT run_id, uid, created_us, parent_run_id, parent_seq FROM runs ORDER BY run_id"
    ).fetchall():
        before = b"" if parent is None else hash_at(connection, parent, parent_seq)
        if before is None:
            raise LogDamaged(f"run {parent} has no event {parent_seq} that run {run_id} forks from")
        tails[run_id] = Tail(parent_seq or 0, genesis_hash(uid, created_us, before))
        last = connection.execute(
            "SELECT run_seq, hash FROM events WHERE run_id = ? ORDER BY run_seq DESC LIMIT 1",
            (run_id,),
        ).fetchone()
        if last is not None:
            tails[run_id] = Tail(*last)
    return seq, epoch, tails


def hash_at(connection: sqlite3.Connection, run_id: int, run_seq: int) -> bytes | None:
    """The hash of a run's event, which for a fork may be its parent's; None without one."""
    while True:
        row = connection.execute(
            "SELECT hash FROM events WHERE run_id = ? AND run_seq = ?", (run_id, run_seq)
        ).fetchone()
        if row is not None:
            return bytes(row[0])
        row = connection.execute(
            "SELECT parent_run_id FROM runs WHERE run_id = ? AND parent_run_id < run_id"
            " AND parent_seq >= ?",
            (run_id, run_seq),
        ).fetchone()
        if row is None:
            return None
        (run_id,) = row
