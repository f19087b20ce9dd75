"""Is this log what was written? Recomputes every chain and every blob.

Finds altered, missing and inserted rows. It can't find that the newest events of a run
were cut off together with everything after them: nothing in the file would know.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
from sqlite_utils import Database

from events.blobs.store import REDACTED, blobs_of
from events.codec import decode_body
from events.connect import schema_sql
from events.envelope import chain_hash, chained, genesis_hash
from events.errors import LogDamaged, LogError, NewerFormat
from events.lock import holder
from events.reader import LogReader, RunRow
from events.recovery.salvage import Salvage
from events.recovery.wal import damage
from events.rows import hash_at

__all__ = ["LogCheck", "Problem", "verify_file", "verify_log", "verify_run"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as written. ``seq`` is the event's position in the file."""

    what: str
    run_id: int | None = None
    seq: int | None = None


class LogCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The whole check; a log is intact when ``problems`` is empty."""

    runs: int
    events: int
    blobs: int
    head: dict[str, str]
    """Each run's uid → the hash of its newest event, to compare with a copy elsewhere."""
    problems: list[Problem]
    redacted: int = 0
    """Blobs that are tombstones, which is no problem: ``engine export --redact`` made them."""


def verify_log(reader: LogReader) -> LogCheck:
    """Check structure, sequence, chains, bodies and blobs. Reads the whole file."""
    with _snapshot(reader) as connection:
        check = _check(reader, connection)
        with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
            check = msgspec.structs.replace(check, redacted=blobs_of(connection).tombstones())
        return check


def verify_run(reader: LogReader, run: RunRow) -> list[Problem]:
    """Check one run's chain only: for a fork, what it shares with its ancestors, then its own.

    Raises ``RunUnknown`` when one of these is not there.
    """
    problems: list[Problem] = []
    with _snapshot(reader) as connection:
        runs = {row.run_id: row for row in reader.runs()}
        for part, last in reader.lineage(run.run_id):
            checked = _run(connection, runs[part], {}, upto=last)
            problems += _guarded(f"run {part}", checked)
    return problems


@contextlib.contextmanager
def _snapshot(reader: LogReader) -> Iterator[sqlite3.Connection]:
    """One state of the file: a writer that goes on appending must not look like damage."""
    reader.connection.execute("BEGIN")
    try:
        yield reader.connection
    finally:
        with contextlib.suppress(sqlite3.Error):
            reader.connection.execute("ROLLBACK")


def verify_file(path: Path) -> LogCheck:
    """The same for a file that may be too damaged to be opened. Raises ``LogError`` for one
    in which there is nothing of a log."""
    try:
        with LogReader(path) as reader:
            return verify_log(reader)
    except NewerFormat:
        raise
    except LogError as error:
        rows = path.is_file() and Salvage(path).events
        if not rows and not isinstance(error, LogDamaged):
            raise
        found = "it has rows of a log" if rows else "no events are left in it"
        problem = Problem(what=f"SQLite can't open the file, and {found}: {error}")
        return LogCheck(runs=0, events=0, blobs=0, head={}, problems=[problem])


def _check(reader: LogReader, connection: sqlite3.Connection) -> LogCheck:
    """Each part for itself: one that can't be read hides nothing of the others."""
    runs: list[RunRow] = []
    heads: dict[str, str] = {}
    counts: dict[str, int] = dict.fromkeys(("events", "blobs"), 0)
    problems = [*_guarded("the file's structure", _structure(connection))]
    problems += _guarded("the -wal", _wal(reader.path))
    problems += _guarded("the table of runs", _runs(reader, runs))
    for run in runs:
        problems += _guarded(f"run {run.run_id}", _run(connection, run, heads))
    problems += _guarded("the sequence of events", _file_sequence(connection))
    problems += _guarded("the blobs", _blobs(connection))
    problems += _guarded("the tables", _counts(connection, counts))
    return LogCheck(runs=len(runs), **counts, head=heads, problems=problems)


def _guarded(part: str, problems: Iterator[Problem]) -> Iterator[Problem]:
    try:
        yield from problems
    except (sqlite3.Error, LogError, ValueError, TypeError, AttributeError, OverflowError) as error:
        yield Problem(what=f"{part} can't be read on: {error}")


def _runs(reader: LogReader, runs: list[RunRow]) -> Iterator[Problem]:
    for expected, run in enumerate(reader.runs(), 1):
        runs.append(run)
        if run.run_id != expected:
            yield Problem(run_id=run.run_id, what="run numbers have a gap before it")


def _wal(path: Path) -> Iterator[Problem]:
    found = None if holder(path) else damage(path)
    if found is not None:
        yield Problem(what=found)


def _counts(connection: sqlite3.Connection, counts: dict[str, int]) -> Iterator[Problem]:
    for table in counts:
        counts[table] = _database(connection)[table].count
    yield from ()


def _database(connection: sqlite3.Connection) -> Database:
    return Database(connection, recursive_triggers=False, execute_plugins=False)


def _structure(connection: sqlite3.Connection) -> Iterator[Problem]:
    """The file as SQLite sees it, and the guards: each has to be there, word for word."""
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Problem(what=f"SQLite: {line}")
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield Problem(what=f"row {row} of {table} refers to nothing in {parent}")
    fresh = sqlite3.connect(":memory:")
    fresh.executescript(schema_sql(blobs_of(connection).FORMAT))
    wanted, found = _definitions(fresh), _definitions(connection)
    fresh.close()
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            yield Problem(what=f"the append-only guard {name} was removed")
        elif name not in wanted and found[name].startswith("CREATE TRIGGER"):
            yield Problem(what=f"the trigger {name} is not one that this format has")
        elif name in wanted and found[name] != wanted[name]:
            yield Problem(what=f"{name} is not as this format has it")


def _definitions(connection: sqlite3.Connection) -> dict[str, str]:
    """What made each trigger, view and index."""
    return dict(
        connection.execute(
            "SELECT name, sql FROM sqlite_master"
            " WHERE type IN ('trigger', 'view', 'index') AND sql IS NOT NULL"
        ).fetchall()
    )


def _run(
    connection: sqlite3.Connection, run: RunRow, heads: dict[str, str], *, upto: int = 2**62
) -> Iterator[Problem]:
    """Walk one run's own chain, up to event ``upto``: what is wrong. Its newest event's hash
    goes to ``heads``."""
    expected, previous = 1, genesis_hash(run.uid, run.created_us)
    if run.parent_run_id is not None:
        fork = hash_at(connection, run.parent_run_id, run.parent_seq or 0)
        if fork is None:
            what = f"the event it was forked from ({run.parent_seq}) is missing"
            yield Problem(run_id=run.run_id, what=what)
            return
        expected = (run.parent_seq or 0) + 1
        previous = genesis_hash(run.uid, run.created_us, fork)
    heads[run.uid] = previous.hex()
    blobs: dict[int, list[tuple[str, str]]] = {}
    yield from _names(connection, run, blobs)
    newest = 0
    for seq, run_seq, epoch, kind, type_, ver, ts_us, body, stored in connection.execute(
        "SELECT seq, run_seq, epoch, kind, type, ver, ts_us, body, hash FROM events"
        " WHERE run_id = ? AND run_seq <= ? ORDER BY run_seq",
        (run.run_id, upto),
    ):
        at = {"run_id": run.run_id, "seq": seq}
        if seq <= newest:
            yield Problem(**at, what="stands before an earlier event of its run")
        newest = seq
        if run_seq != expected:
            yield Problem(**at, what=f"event {expected} of the run is missing (next is {run_seq})")
        content = chained(
            run_seq=run_seq, epoch=epoch, kind=kind, type_=type_, ver=ver, ts_us=ts_us,
            body=body.encode(), blobs=blobs.get(seq, []),
        )  # fmt: skip
        if chain_hash(previous, content) != stored:
            yield Problem(**at, what=f"{type_}: the hash does not match the content")
        try:
            if kind != decode_body(type_, ver, body.encode()).KIND:
                yield Problem(**at, what=f"{type_} is not of kind {kind!r}")
        except LogError as error:
            yield Problem(**at, what=str(error))
        # Go on from what is stored: one altered event is one problem, not a cascade.
        expected, previous = run_seq + 1, stored
        heads[run.uid] = previous.hex()


def _names(
    connection: sqlite3.Connection, run: RunRow, blobs: dict[int, list[tuple[str, str]]]
) -> Iterator[Problem]:
    """The (name, sha256) of each event's blobs, into ``blobs``."""
    for seq, pos, name, sha in blobs_of(connection).places(run.run_id):
        named = blobs.setdefault(seq, [])
        if pos != len(named):
            yield Problem(run_id=run.run_id, seq=seq, what="its blobs are numbered with a gap")
        named.append((name, sha))


def _file_sequence(connection: sqlite3.Connection) -> Iterator[Problem]:
    low, high, count = connection.execute(
        "SELECT coalesce(min(seq), 1), coalesce(max(seq), 0), count(*) FROM events"
    ).fetchone()
    if low != 1 or high != count:
        yield Problem(what=f"the file's sequence has gaps: {count} events from {low} to {high}")
    for (seq,) in connection.execute(
        "SELECT seq FROM (SELECT seq, epoch, lag(epoch) OVER (ORDER BY seq) AS before FROM events)"
        " WHERE epoch < before"
    ):
        yield Problem(seq=seq, what="written by an older writer after a newer one")


def _blobs(connection: sqlite3.Connection) -> Iterator[Problem]:
    blobs = blobs_of(connection)
    for seq, name in blobs.missing():
        yield Problem(seq=seq, what=f"its blob {name} is missing")
    for stored in blobs.all():
        if stored.codec == REDACTED and not stored.data:
            continue
        try:
            if len(blobs.read(stored)) != stored.size:
                yield Problem(what=f"blob {stored.sha256[:12]} is not of its stated size")
        except LogError as error:
            yield Problem(what=str(error))
