"""The log's one writer: positions are assigned at once, durability is awaited.

``append`` gives an event its ``seq``, its place in the run and its hash synchronously
and queues it; a thread writes whatever is queued in one transaction (group commit), so
that many waiting tasks share one fsync; ``durable`` returns when an event survives
kill -9 and power loss. After a failed commit the writer is poisoned: everything that
waits, and everything later, raises ``WriterFailed``.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from events.bodies import Body
from events.codec import decode_body, encode_body
from events.connect import connect_read_write
from events.envelope import Blob, Event, chain_hash, genesis_hash
from events.errors import LogDamaged, RunUnknown, WriterFailed
from events.lock import WriterLock

__all__ = ["LogWriter"]

_MOST_PER_COMMIT = 1024
_COMPRESS_FROM_BYTES = 128

Write = Callable[[sqlite3.Connection], None]


class _Tail(msgspec.Struct):
    """Where a run's next event goes."""

    run_seq: int
    hash: bytes


class LogWriter:
    """Use as ``async with LogWriter(path) as log``. Not safe to share between threads.

    Raises ``LogInUse`` when another process writes the log, ``LogUnreadable`` and its
    kin for a file that is no log of ours.
    """

    def __init__(self, path: Path, *, clock_us: Callable[[], int] | None = None) -> None:
        self.path = path
        self._clock_us = clock_us or (lambda: time.time_ns() // 1000)
        self._lock = WriterLock(path)
        try:
            self._connection = connect_read_write(path)
            self._seq, self.epoch, self._tails = _resume_positions(self._connection)
        except BaseException:
            self._lock.release()
            raise
        self._queue: SimpleQueue[tuple[int, Write] | None] = SimpleQueue()
        self._committed = self._seq
        self._failure: str | None = None
        self._progress = anyio.Event()
        self._closed = False

    async def __aenter__(self) -> LogWriter:
        self._token = anyio.lowlevel.current_token()
        self._thread = threading.Thread(target=self._commit_loop, name="log-writer", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            self._closed = True
            self._queue.put(None)
            await anyio.to_thread.run_sync(self._thread.join)
            _close(self._connection)
            self._lock.release()

    def create_run(self, uid: str) -> int:
        """Begin a run and return its id in this file. Its first event makes it durable."""
        run_id = max(self._tails, default=0) + 1
        now = self._clock_us()
        self._put(
            lambda connection: _insert(
                connection,
                "runs",
                (run_id, uid, now, None, None),
                "run_id, uid, created_us, parent_run_id, parent_seq",
            )
        )
        self._tails[run_id] = _Tail(0, genesis_hash(uid, now))
        return run_id

    def append(self, run_id: int, body: Body, blobs: Iterable[Blob] = ()) -> Event:
        """Place the event in the log. It is durable only once ``durable(event)`` returns.

        Raises ``BodyInvalid`` (nothing is appended), ``RunUnknown`` or ``WriterFailed``.
        """
        self._raise_if_failed()
        if run_id not in self._tails:
            raise RunUnknown(f"{self.path}: no run {run_id}")
        blobs = tuple(blobs)
        data = encode_body(body)
        tail = self._tails[run_id]
        shas = tuple(blob.sha256 for blob in blobs)
        ts_us = self._clock_us()
        run_seq = tail.run_seq + 1
        hash_ = chain_hash(
            tail.hash, run_seq=run_seq, epoch=self.epoch, kind=body.KIND, type_=body.TYPE,
            ver=body.VER, ts_us=ts_us, body=data,
            blobs=[(blob.name, sha) for blob, sha in zip(blobs, shas, strict=True)],
        )  # fmt: skip
        self._seq += 1
        # What the fold sees live is what a replay will decode, not the object given here:
        # an int in a float field comes back as a float.
        event = Event(
            seq=self._seq, run_id=run_id, run_seq=run_seq, epoch=self.epoch, kind=body.KIND,
            ts_us=ts_us, body=decode_body(body.TYPE, body.VER, data), hash=hash_, blobs=shas,
        )  # fmt: skip
        tail.run_seq, tail.hash = run_seq, hash_
        self._put(lambda connection: _insert_event(connection, event, data, blobs))
        return event

    async def durable(self, event: Event) -> None:
        """Return once ``event`` is on disk. Not cancellable: the answer is always learned.

        Raises ``WriterFailed``.
        """
        with anyio.CancelScope(shield=True):
            while self._committed < event.seq:
                self._raise_if_failed()
                await self._progress.wait()

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise WriterFailed(f"{self.path}: {self._failure}")
        if self._closed:
            raise WriterFailed(f"{self.path}: the log is closed")

    def _put(self, write: Write) -> None:
        self._queue.put((self._seq, write))

    # -- on the writer's thread ---------------------------------------------------------

    def _commit_loop(self) -> None:
        closing = False
        while not closing:
            batch = [self._queue.get()]
            with contextlib.suppress(Empty):
                while len(batch) < _MOST_PER_COMMIT:
                    batch.append(self._queue.get_nowait())
            closing = batch[-1] is None
            writes = [item for item in batch if item is not None]
            if not writes:
                continue
            try:
                _commit(self._connection, [write for _, write in writes])
            except Exception as error:
                self._wake(self._on_failure, f"{type(error).__name__}: {error}")
                return
            self._wake(self._on_commit, writes[-1][0])

    def _wake(self, callback: Callable[..., None], *args: Any) -> None:
        native: Any = self._token.native_token
        # The loop may be gone when a closing run's last commit lands: nobody waits then.
        with contextlib.suppress(RuntimeError):
            if isinstance(native, asyncio.AbstractEventLoop):
                native.call_soon_threadsafe(callback, *args)
            else:
                native.run_sync_soon(callback, *args)

    # -- back on the event loop ---------------------------------------------------------

    def _on_commit(self, seq: int) -> None:
        self._committed = seq
        self._wake_waiters()

    def _on_failure(self, message: str) -> None:
        self._failure = message
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        woken, self._progress = self._progress, anyio.Event()
        woken.set()


def _resume_positions(connection: sqlite3.Connection) -> tuple[int, int, dict[int, _Tail]]:
    """The newest seq, this writer's epoch, and each run's tail."""
    seq, epoch = connection.execute(
        "SELECT coalesce(max(seq), 0), coalesce(max(epoch), 0) FROM events"
    ).fetchone()
    tails: dict[int, _Tail] = {}
    for run_id, uid, created_us, parent, parent_seq in connection.execute(
        "SELECT run_id, uid, created_us, parent_run_id, parent_seq FROM runs ORDER BY run_id"
    ).fetchall():
        before = b"" if parent is None else _hash_at(connection, parent, parent_seq)
        tails[run_id] = _Tail(parent_seq or 0, genesis_hash(uid, created_us, before))
        last = connection.execute(
            "SELECT run_seq, hash FROM events WHERE run_id = ? ORDER BY run_seq DESC LIMIT 1",
            (run_id,),
        ).fetchone()
        if last is not None:
            tails[run_id] = _Tail(*last)
    return seq, epoch + 1, tails


def _hash_at(connection: sqlite3.Connection, run_id: int, run_seq: int) -> bytes:
    while True:
        row = connection.execute(
            "SELECT hash FROM events WHERE run_id = ? AND run_seq = ?", (run_id, run_seq)
        ).fetchone()
        if row is not None:
            return bytes(row[0])
        row = connection.execute(
            "SELECT parent_run_id FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        if row is None or row[0] is None:
            raise LogDamaged(f"run {run_id} has no event {run_seq} to fork from")
        run_id = row[0]


def _commit(connection: sqlite3.Connection, writes: Sequence[Write]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for write in writes:
            write(connection)
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _insert_event(
    connection: sqlite3.Connection, event: Event, body: bytes, blobs: Sequence[Blob]
) -> None:
    _insert(
        connection,
        "events",
        (event.seq, event.run_id, event.run_seq, event.epoch, event.kind, event.type,
         event.body.VER, event.ts_us, body.decode(), event.hash),
        "seq, run_id, run_seq, epoch, kind, type, ver, ts_us, body, hash",
    )  # fmt: skip
    for pos, (blob, sha) in enumerate(zip(blobs, event.blobs, strict=True)):
        _insert_blob(connection, sha, blob.data)
        _insert(
            connection, "event_blobs", (event.seq, pos, blob.name, sha), "seq, pos, name, sha256"
        )


def _insert_blob(connection: sqlite3.Connection, sha: str, content: bytes) -> None:
    """Store a blob, unless the log has it: most prompt parts repeat."""
    if connection.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (sha,)).fetchone():
        return
    codec, data = "raw", content
    if len(content) >= _COMPRESS_FROM_BYTES:
        packed = zlib.compress(content, 6)
        if len(packed) < len(content):
            codec, data = "zlib", packed
    connection.execute(
        "INSERT INTO blobs (id, sha256, codec, size, data)"
        " SELECT coalesce(max(id), 0) + 1, ?, ?, ?, ? FROM blobs",
        (sha, codec, len(content), data),
    )


def _insert(
    connection: sqlite3.Connection, table: str, values: Sequence[object], columns: str
) -> None:
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)


def _close(connection: sqlite3.Connection) -> None:
    """Fold the WAL back and leave one plain file, which opens in a read-only directory.

    With a reader still attached the mode can't change: the log stays in WAL then, with
    everything in the file itself.
    """
    connection.set_authorizer(None)
    for pragma in ("wal_checkpoint(TRUNCATE)", "journal_mode=DELETE"):
        with contextlib.suppress(sqlite3.Error):
            connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.close()
