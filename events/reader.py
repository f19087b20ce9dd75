"""Reading a log: runs, events in order, blobs by name; also while it is written."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from events.bodies import Kind
from events.codec import decode_body
from events.connect import connect_read_only
from events.envelope import Event, sha256_hex
from events.errors import BlobRedacted, LogDamaged, LogUnreadable, RunUnknown

__all__ = ["REDACTED", "LogReader", "RunRow", "read_blob"]

REDACTED = "redacted"
"""The codec of a tombstone: a blob whose content was left out (``events.redact``)."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the file lists it. A fork shares its parent's events up to ``parent_seq``."""

    run_id: int
    uid: str
    created_us: int
    parent_run_id: int | None
    parent_seq: int | None


class LogReader:
    """A read-only view of a log. Use as a context manager.

    Raises ``LogUnreadable``, ``NotALog`` or ``NewerFormat`` when opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = connect_read_only(path)

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.connection.close()

    def runs(self) -> list[RunRow]:
        rows = self._rows("SELECT * FROM runs ORDER BY run_id")
        return [
            RunRow(run_id=a, uid=b, created_us=c, parent_run_id=d, parent_seq=e)
            for a, b, c, d, e in rows
        ]

    def find_run(self, name: str | None) -> RunRow:
        """The run that ``name`` (id, uid or the start of a uid) means; None: the only one.

        Raises ``RunUnknown``, which lists what there is.
        """
        runs = self.runs()
        if name is None:
            found = runs
        else:
            found = [run for run in runs if name == str(run.run_id) or name == run.uid]
            found = found or [run for run in runs if run.uid.startswith(name)]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f"{self.path.name}#{run.run_id}" for run in runs) or "none"
        what = f"no single run {name!r}" if name else f"holds {len(runs)} runs, name one"
        raise RunUnknown(f"{self.path}: {what} (runs: {listed})")

    def events(self, run_id: int, *, after: int = 0, upto: int | None = None) -> Iterator[Event]:
        """The run's events with ``after`` < run_seq ≤ ``upto``, a fork's shared prefix included.

        Raises ``BodyInvalid``, ``NewerFormat`` or ``LogDamaged``.
        """
        run = self._run(run_id)
        if run.parent_run_id is not None:
            assert run.parent_seq is not None
            shared = run.parent_seq if upto is None else min(upto, run.parent_seq)
            yield from self.events(run.parent_run_id, after=after, upto=shared)
        limit = 2**62 if upto is None else upto
        for row in self._rows(
            "SELECT seq, run_id, run_seq, epoch, kind, type, ver, ts_us, body, hash FROM events"
            " WHERE run_id = ? AND run_seq > ? AND run_seq <= ? ORDER BY run_seq",
            (run_id, after, limit),
        ):
            yield self._event(*row)

    def since(self, seq: int, *, run_id: int | None = None, most: int = 1000) -> list[Event]:
        """The next events of the file after ``seq``, or of one run's own, in file order.

        A list, not an iterator: a slow consumer must not hold a snapshot, because the
        writer's WAL grows for as long as there is one.
        """
        # The plus keeps SQLite on the primary key: the index by run would be read from its start.
        where, values = ("", ()) if run_id is None else (" AND +run_id = ?", (run_id,))
        rows = list(
            self._rows(
                "SELECT seq, run_id, run_seq, epoch, kind, type, ver, ts_us, body, hash FROM events"
                f" WHERE seq > ?{where} ORDER BY seq LIMIT ?",
                (seq, *values, most),
            )
        )
        return [self._event(*row) for row in rows]

    def newest_seq(self, *, run_id: int | None = None, before: int = 0) -> int:
        """The file position of the newest event, or of the one ``before`` events earlier."""
        where, values = ("", ()) if run_id is None else (" WHERE run_id = ?", (run_id,))
        order = "seq" if run_id is None else "run_seq"
        sql = f"SELECT seq FROM events{where} ORDER BY {order} DESC LIMIT 1 OFFSET ?"
        row = next(self._rows(sql, (*values, before)), None)
        return 0 if row is None else int(row[0])

    def newest_run_seq(self, run_id: int) -> int:
        """How many events the run has, those that a fork shares with its parent included."""
        sql = "SELECT max(run_seq) FROM events WHERE run_id = ?"
        own = next(self._rows(sql, (run_id,)))[0]
        return int(own or self._run(run_id).parent_seq or 0)

    def blob(self, sha256: str) -> bytes:
        """The content of a blob. Raises ``LogDamaged`` when it is missing or altered, and
        ``BlobRedacted``."""
        rows = list(self._rows("SELECT codec, data FROM blobs WHERE sha256 = ?", (sha256,)))
        if not rows:
            raise LogDamaged(f"{self.path}: blob {sha256[:12]} is missing")
        return read_blob(sha256, *rows[0])

    def text(self, sha256: str | None) -> str:
        """A blob as text; the empty string for None."""
        return "" if sha256 is None else self.blob(sha256).decode("utf-8", "surrogatepass")

    def newest_epoch(self, run_id: int | None = None) -> int:
        """The epoch of the newest event of the run, or of the whole file; 0 without any."""
        where, values = ("", ()) if run_id is None else (" WHERE run_id = ?", (run_id,))
        sql = f"SELECT coalesce(max(epoch), 0) FROM events{where}"
        return int(next(self._rows(sql, values))[0])

    def blob_names(self, seq: int) -> list[tuple[str, str]]:
        """(name, sha256) of an event's blobs, in order."""
        return list(
            self._rows("SELECT name, sha256 FROM event_blobs WHERE seq = ? ORDER BY pos", (seq,))
        )

    def _run(self, run_id: int) -> RunRow:
        for run in self.runs():
            if run.run_id == run_id:
                return run
        raise RunUnknown(f"{self.path}: no run {run_id}")

    def _event(
        self, seq: int, run_id: int, run_seq: int, epoch: int, kind: Kind, type_: str, ver: int,
        ts_us: int, body: str, hash_: bytes,
    ) -> Event:  # fmt: skip
        return Event(
            seq=seq, run_id=run_id, run_seq=run_seq, epoch=epoch, kind=kind, ts_us=ts_us,
            body=decode_body(type_, ver, body.encode()), hash=hash_,
            blobs=tuple(sha for _, sha in self.blob_names(seq)),
        )  # fmt: skip

    def _rows(self, sql: str, values: tuple[object, ...] = ()) -> Iterator[tuple]:  # type: ignore[type-arg]
        try:
            # Not `yield from`: it would close the cursor of a reader that is closed already.
            for row in self.connection.execute(sql, values):  # noqa: UP028
                yield row
        except sqlite3.OperationalError as error:
            raise LogUnreadable(f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise LogDamaged(f"{self.path}: {error}") from error


def read_blob(sha256: str, codec: str, data: bytes) -> bytes:
    """Unpack a stored blob and check it against its name. Raises ``LogDamaged``, or
    ``BlobRedacted`` for a tombstone."""
    if codec == REDACTED:
        raise BlobRedacted(f"blob {sha256[:12]} is redacted: this copy of the log has no texts")
    try:
        content = zlib.decompress(data) if codec == "zlib" else data
    except zlib.error as error:
        raise LogDamaged(f"blob {sha256[:12]} can't be unpacked: {error}") from error
    if codec not in ("zlib", "raw") or sha256_hex(content) != sha256:
        raise LogDamaged(f"blob {sha256[:12]} is not what its name says")
    return content
