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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel

from events.blobs.store import blobs_of
from events.bodies import Body
from events.codec import as_stored
from events.connect import Opener, connect_read_write, open_sqlite, unreadable
from events.envelope import Blob, Event, chain_hash, chained, genesis_hash
from events.errors import LogError, LogInUse, RunUnknown, WriterFailed
from events.fence import Fence
from events.lock import WriterLock
from events.recovery.wal import Watch
from events.rows import EventRow, NewEvent, Tail, insert_events, insert_run, positions

__all__ = ["LogWriter"]

_MOST_PER_COMMIT = 1024

Write = NewEvent | Callable[[sqlite3.Connection], None]


class LogWriter:
    """Use as ``async with LogWriter(path) as log``. Not safe to share between threads.

    Raises ``LogInUse`` when another process writes the log, ``LogUnreadable`` and its
    kin for a file that is no log of ours.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock_us: Callable[[], int] | None = None,
        opener: Opener = open_sqlite,
    ) -> None:
        self.path = path
        self._clock_us = clock_us or (lambda: time.time_ns() // 1000)
        with contextlib.ExitStack() as opened:
            self._lock = WriterLock(path)
            opened.callback(self._lock.release)
            self._connection = connect_read_write(path, opener)
            opened.callback(self._connection.close)
            try:
                with _transaction(self._connection, path):
                    self._fence = Fence(path, self._lock)
                    self._seq, epoch, self._tails = positions(self._connection)
                    self._blobs = blobs_of(self._connection)
            except sqlite3.Error as error:
                raise unreadable(path, error) from error
            opened.pop_all()
        self.epoch = epoch + 1
        self._watch = Watch(path)
        self._unborn: dict[int, Write] = {}
        """Runs without an event yet, which the file doesn't know."""
        self._queue: SimpleQueue[tuple[int, tuple[Write, ...]] | None] = SimpleQueue()
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
            _close(self._connection, self._fence)
            self._lock.release()

    def create_run(self, uid: str) -> int:
        """Begin a run and return its id in this file, where it appears with its first event."""
        return self._begin(uid, None, None)

    def fork(self, parent: int, at: Event, uid: str) -> int:
        """Begin a run that shares the events of run ``parent`` up to ``at``, without copying
        them. Like any run, it appears with its first event: killed before, there is none."""
        return self._begin(uid, parent, at)

    def _begin(self, uid: str, parent: int | None, at: Event | None) -> int:
        run_id, now = max(self._tails, default=0) + 1, self._clock_us()
        run_seq, before = (0, b"") if at is None else (at.run_seq, at.hash)
        self._tails[run_id] = Tail(run_seq, genesis_hash(uid, now, before))
        self._unborn[run_id] = lambda connection: insert_run(
            connection, run_id, uid, now, parent, None if at is None else run_seq
        )
        return run_id

    def append(self, run_id: int, body: Body, blobs: Iterable[Blob] = ()) -> Event:
        """Place the event in the log. It is durable only once ``durable(event)`` returns.

        Raises ``BodyInvalid`` (nothing is appended), ``RunUnknown`` or ``WriterFailed``.
        """
        self._raise_if_failed()
        if run_id not in self._tails:
            raise RunUnknown(f"{self.path}: no run {run_id}")
        blobs = tuple(blobs)
        # What the fold sees live is what a replay will decode, not the object given here.
        data, stored = as_stored(body)
        tail = self._tails[run_id]
        shas = tuple(blob.sha256 for blob in blobs)
        ts_us = self._clock_us()
        run_seq = tail.run_seq + 1
        content = chained(
            run_seq=run_seq, epoch=self.epoch, kind=body.KIND, type_=body.TYPE, ver=body.VER,
            ts_us=ts_us, body=data,
            blobs=[(blob.name, sha) for blob, sha in zip(blobs, shas, strict=True)],
        )  # fmt: skip
        hash_ = chain_hash(tail.hash, content)
        self._seq += 1
        event = Event(
            seq=self._seq, run_id=run_id, run_seq=run_seq, epoch=self.epoch, kind=body.KIND,
            ts_us=ts_us, body=stored, hash=hash_, blobs=shas,
        )  # fmt: skip
        row = EventRow(
            seq=self._seq, run_id=run_id, run_seq=run_seq, epoch=self.epoch, kind=body.KIND,
            type=body.TYPE, ver=body.VER, ts_us=ts_us, body=data.decode(), hash=hash_,
        )  # fmt: skip
        tail.run_seq, tail.hash = run_seq, hash_
        named = tuple(zip(blobs, shas, strict=True))
        births: list[Write] = []
        if self._unborn:
            # Numbers have no gaps: runs that began earlier come into the file with this one.
            births = [self._unborn.pop(born) for born in sorted(self._unborn) if born <= run_id]
        self._put(*births, NewEvent(row, named))
        return event

    async def durable(self, event: Event) -> None:
        """Return once ``event`` is on disk. A cancellation has to wait for that as well.

        Raises ``WriterFailed``.
        """
        try:
            await self._reached(event.seq)
        except anyio.get_cancelled_exc_class():
            # Not shielded from the start: that costs a third of a concurrent append.
            with anyio.CancelScope(shield=True):
                await self._reached(event.seq)
            raise

    async def _reached(self, seq: int) -> None:
        while self._committed < seq:
            self._raise_if_failed()
            await self._progress.wait()

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise WriterFailed(self._failure)
        if self._closed:
            raise WriterFailed(f"{self.path}: the log is closed")

    def _put(self, *writes: Write) -> None:
        """Queue what belongs together: a transaction takes all of it or nothing."""
        self._queue.put((self._seq, writes))

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
                self._commit([write for _, together in writes for write in together])
            except Exception as error:
                self._wake(self._on_failure, _words(error, self.path))
                return
            self._wake(self._on_commit, writes[-1][0])
            self._watch.look()

    def _commit(self, writes: Sequence[Write]) -> None:
        with _transaction(self._connection, self.path):
            self._fence.check()
            events: list[NewEvent] = []
            for write in writes:
                if isinstance(write, NewEvent):
                    events.append(write)
                else:
                    insert_events(self._connection, self._blobs, events)
                    events = []
                    write(self._connection)
            insert_events(self._connection, self._blobs, events)

    def _wake(self, callback: Callable[..., None], *args: Any) -> None:
        native: Any = self._token.native_token
        # The loop may be gone when a closing run's last commit lands: no task waits then.
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


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Commit what the block writes, or nothing of it. Raises ``LogInUse``."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        what = "a process without the writer's lock is in the middle of a write (is it stopped?)"
        raise LogInUse(f"{path}: {what}", None) from error
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _words(error: Exception, path: Path) -> str:
    """A failed commit, for the user."""
    if isinstance(error, LogError):
        return str(error)
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", None)
        return f"{path}: {error}" + (f" ({name})" if name else "")
    return f"{path}: {type(error).__name__}: {error}"


def _close(connection: sqlite3.Connection, fence: Fence) -> None:
    """Fold the WAL back and leave one plain file, which opens in a read-only directory.

    With a reader still attached the mode can't change: the log stays in WAL then, with
    everything in the file itself.
    """
    connection.set_authorizer(None)
    if fence.owns():
        for pragma in ("wal_checkpoint(TRUNCATE)", "journal_mode=DELETE"):
            with contextlib.suppress(sqlite3.Error):
                connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.close()
