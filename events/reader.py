"""Reading a log: runs, events in order, blobs by name; also while it is written."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType

import msgspec

from events.blobs.store import Blobs, blobs_of
from events.bodies import Body, Kind
from events.codec import decode_body
from events.connect import connect_read_only
from events.envelope import Event
from events.errors import LogDamaged, LogUnreadable, RunUnknown

__all__ = ["LogReader", "RunRow"]


_COLUMNS = "seq, run_id, run_seq, epoch, kind, type, ver, ts_us, body, hash"
_ENDLESS = 2**62


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
        self._lineages: dict[int, list[tuple[int, int]]] = {}

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
        if not runs:
            raise RunUnknown(
                f"{self.path}: holds no run: its writer ended before the first event; a new run can"
                " begin in this file"
            )
        listed = ", ".join(f"{self.path.name}#{run.run_id}" for run in runs)
        what = f"no single run {name!r}" if name else f"holds {len(runs)} runs, name one"
        raise RunUnknown(f"{self.path}: {what} (runs: {listed})")

    def lineage(self, run_id: int) -> list[tuple[int, int]]:
        """What a run is made of, oldest first: (run, up to which ``run_seq``). For a fork,
        parts of its ancestors, then itself. Raises ``RunUnknown``."""
        if run_id not in self._lineages:
            rows = {run.run_id: run for run in self.runs()}
            made: list[tuple[int, int]] = []
            at: int | None = run_id
            upto = _ENDLESS
            while at is not None:
                if at not in rows or any(at >= younger for younger, _ in made):
                    raise RunUnknown(f"{self.path}: no run {at}")
                made.insert(0, (at, upto))
                upto, at = min(upto, rows[at].parent_seq or 0), rows[at].parent_run_id
            self._lineages[run_id] = made
        return self._lineages[run_id]

    def events(self, run_id: int, *, after: int = 0, upto: int | None = None) -> Iterator[Event]:
        """The run's events with ``after`` < run_seq ≤ ``upto``, a fork's shared prefix included.

        Raises ``BodyInvalid``, ``NewerFormat`` or ``LogDamaged``.
        """
        for part, last in self.lineage(run_id):
            for row in self._rows(
                f"SELECT {_COLUMNS} FROM events"
                " WHERE run_id = ? AND run_seq > ? AND run_seq <= ? ORDER BY run_seq",
                (part, after, last if upto is None else min(last, upto)),
            ):
                yield self._event(*row)

    def bodies(
        self, run_id: int, types: Iterable[type[Body]], *, upto: int | None = None
    ) -> Iterator[Body]:
        """Like ``events``, but only bodies of these types: for a fold that needs no more.

        Raises what ``events`` raises.
        """
        names = [body.TYPE for body in types]
        for part, last in self.lineage(run_id):
            # In the file's order, which is the run's: the index by run would be a search a row.
            for type_, ver, body in self._rows(
                "SELECT type, ver, body FROM events WHERE +run_id = ?1 AND run_seq <= ?2"
                " AND seq BETWEEN (SELECT min(seq) FROM events WHERE run_id = ?1)"
                " AND (SELECT max(seq) FROM events WHERE run_id = ?1)"
                f" AND type IN ({', '.join('?' * len(names))}) ORDER BY seq",
                (part, last if upto is None else min(last, upto), *names),
            ):
                yield decode_body(type_, ver, body)

    def since(self, seq: int, *, run_id: int | None = None, most: int = 1000) -> list[Event]:
        """The next events after ``seq`` in file order: of the file, or of one run.

        A list, not an iterator: a slow consumer must not hold a snapshot, because the
        writer's WAL grows for as long as there is one.
        """
        of_run, values = self._of_run(run_id)
        rows = list(
            self._rows(
                f"SELECT {_COLUMNS} FROM events WHERE seq > ? AND {of_run} ORDER BY seq LIMIT ?",
                (seq, *values, most),
            )
        )
        return [self._event(*row) for row in rows]

    def newest_seq(self, *, run_id: int | None = None, before: int = 0) -> int:
        """The file position of the newest event, or of the one ``before`` events earlier."""
        of_run, values = self._of_run(run_id)
        sql = f"SELECT seq FROM events WHERE {of_run} ORDER BY seq DESC LIMIT 1 OFFSET ?"
        row = next(self._rows(sql, (*values, before)), None)
        return 0 if row is None else int(row[0])

    def newest_run_seq(self, run_id: int) -> int:
        """How many events the run has, those that a fork shares included."""
        parts = self.lineage(run_id)
        sql = "SELECT max(run_seq) FROM events WHERE run_id = ?"
        own = next(self._rows(sql, (run_id,)))[0]
        return int(own or (parts[-2][1] if len(parts) > 1 else 0))

    def has(self, run_id: int, seq: int) -> bool:
        """Whether the event ``seq`` of the file is one of the run's, its own or shared."""
        of_run, values = self._of_run(run_id)
        sql = f"SELECT 1 FROM events WHERE seq = ? AND {of_run}"
        return next(self._rows(sql, (seq, *values)), None) is not None

    def _of_run(self, run_id: int | None) -> tuple[str, tuple[int, ...]]:
        """A condition on rows of ``events``, and its values."""
        if run_id is None:
            return "TRUE", ()
        parts = self.lineage(run_id)
        # The plus keeps SQLite on the primary key: the index by run would be read from its start.
        condition = " OR ".join(["(+run_id = ? AND run_seq <= ?)"] * len(parts))
        return f"({condition})", tuple(value for part in parts for value in part)

    def blob(self, sha256: str) -> bytes:
        """The content of a blob. Raises ``LogDamaged`` when it is missing or altered, and
        ``BlobRedacted``."""
        with self._readable():
            stored = self._blobs.find(sha256)
            if stored is None:
                raise LogDamaged(f"{self.path}: blob {sha256[:12]} is missing")
            return self._blobs.read(stored)

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
        with self._readable():
            return list(self._blobs.names(seq))

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
        with self._readable():
            # Not `yield from`: it would close the cursor of a reader that is closed already.
            for row in self.connection.execute(sql, values):  # noqa: UP028
                yield row

    @cached_property
    def _blobs(self) -> Blobs:
        return blobs_of(self.connection)

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise LogUnreadable(f"{self.path}: {error}") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            # SQLite quotes a damaged schema as it is, and Python can't make a message of it.
            raise LogDamaged(f"{self.path}: {error}") from error
