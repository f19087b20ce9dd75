"""One side of a comparison of durable appends, as a process that measures when it is told.

    python benchmarks/log_sides.py SIDE FILE

It reads ``SHAPE COUNT`` lines from standard input and answers each with the seconds that
so many appends of a 1 KB event took, each of them acknowledged as on the disk. Shapes:
``sequential``, and ``concurrent`` for ours. The peers run in an environment of their own
(``benchmarks/log_peers.txt``), so nothing of ours is imported for them.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from uuid import uuid4

EVENT_BYTES = 1024
APPENDERS = 64


def _answer(measure: Callable[[str, int], float]) -> None:
    for line in sys.stdin:
        shape, count = line.split()
        print(measure(shape, int(count)), flush=True)


def _one_append(path: Path) -> Callable[[], None]:
    """The least that sqlite3 can do: one table, one statement, one transaction an event."""
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    body = "y" * EVENT_BYTES

    def append() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO events (body) VALUES (?)", (body,))
        connection.execute("COMMIT")

    return append


def _raw(path: Path) -> None:
    append = _one_append(path)

    def measure(shape: str, count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            append()
        return time.perf_counter() - began

    _answer(measure)


def _threaded(path: Path) -> None:
    """The same behind a thread: what an event loop has to pay if it is not to be blocked."""
    append = _one_append(path)

    async def serve() -> None:
        loop, jobs = asyncio.get_running_loop(), SimpleQueue[asyncio.Future[None] | None]()

        def work() -> None:
            while (done := jobs.get()) is not None:
                append()
                loop.call_soon_threadsafe(done.set_result, None)

        thread = threading.Thread(target=work)
        thread.start()
        while line := await asyncio.to_thread(sys.stdin.readline):
            began = time.perf_counter()
            for _ in range(int(line.split()[1])):
                done = loop.create_future()
                jobs.put(done)
                await done
            print(time.perf_counter() - began, flush=True)
        jobs.put(None)
        thread.join()

    asyncio.run(serve())


def _ours(backend: str, path: Path) -> None:
    import anyio

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks.log_events import reply
    from events.writer import LogWriter

    async def appends(log: LogWriter, run: int, count: int) -> None:
        for number in range(count):
            await log.durable(log.append(run, reply(number)))

    async def serve() -> None:
        async with LogWriter(path) as log:
            run = log.create_run("append")
            while line := await anyio.to_thread.run_sync(sys.stdin.readline):
                shape, count = line.split()
                began = time.perf_counter()
                if shape == "sequential":
                    await appends(log, run, int(count))
                else:
                    async with anyio.create_task_group() as tasks:
                        for _ in range(APPENDERS):
                            tasks.start_soon(appends, log, run, int(count) // APPENDERS)
                print(time.perf_counter() - began, flush=True)

    anyio.run(serve, backend=backend)


def _eventsourcing(path: Path) -> None:
    from eventsourcing.persistence import StoredEvent
    from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

    recorder = SQLiteApplicationRecorder(SQLiteDatastore(str(path)))
    recorder.create_table()
    stream, body = uuid4(), b"y" * EVENT_BYTES
    versions = iter(range(10**9))

    def measure(shape: str, count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            recorder.insert_events([StoredEvent(stream, next(versions), "event", body)])
        return time.perf_counter() - began

    _answer(measure)


def _langgraph(path: Path) -> None:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.base.id import uuid6
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async def puts(saver: AsyncSqliteSaver, count: int) -> float:
        began = time.perf_counter()
        for number in range(count):
            checkpoint = empty_checkpoint()
            checkpoint["id"] = str(uuid6(clock_seq=number))
            checkpoint["channel_values"] = {"event": "y" * EVENT_BYTES}
            config = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
            await saver.aput(config, checkpoint, {}, {})
        return time.perf_counter() - began

    async def serve() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            while line := await asyncio.to_thread(sys.stdin.readline):
                print(await puts(saver, int(line.split()[1])), flush=True)

    asyncio.run(serve())


SIDES: dict[str, Callable[[Path], None]] = {
    "raw": _raw,
    "threaded": _threaded,
    "asyncio": partial(_ours, "asyncio"),
    "trio": partial(_ours, "trio"),
    "eventsourcing": _eventsourcing,
    "langgraph": _langgraph,
}

if __name__ == "__main__":
    SIDES[sys.argv[1]](Path(sys.argv[2]))
