"""Writers to be killed: they run in processes of their own and tell what was acknowledged.

The seam is the connection that the log's writer is given: this one counts statements, and
kills its process at the one that the test named.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio
import msgspec

from events.bodies import StopRequested
from events.envelope import Blob, Event
from events.reader import LogReader
from events.verify import verify_log
from events.writer import LogWriter

__all__ = ["POINTS", "Plan", "check", "obey", "write"]

POINTS = (
    "request committed",
    "reply arrived",
    "reply appended",
    "inside a group commit",
    "before the commit",
    "after the commit",
    "before the checkpoint",
    "before the journal mode",
    "closed",
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``point``: where the process kills itself, the ``count``-th time it comes there."""

    name: str
    run: int | None
    """None: begin one."""
    backend: str
    point: str | None = None
    count: int = 1
    exchanges: int = 10**9
    checkpoint_pages: int = 1000


class _Point:
    def __init__(self, plan: Plan) -> None:
        self._name, self._left = plan.point, plan.count

    def __call__(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class _Dying(sqlite3.Connection):
    """Passes every statement on, and the points that it marks too."""

    point: _Point
    inserted = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:  # type: ignore[override]
        if sql.startswith("INSERT INTO events"):
            self.inserted += 1
            if self.inserted > 1:
                self.point("inside a group commit")
        elif sql == "COMMIT":
            self.point("before the commit")
            self.inserted = 0
        elif sql.startswith("PRAGMA wal_checkpoint"):
            self.point("before the checkpoint")
        elif sql == "PRAGMA journal_mode=DELETE":
            self.point("before the journal mode")
        cursor = super().execute(sql, *values)
        if sql == "COMMIT":
            self.point("after the commit")
        return cursor


def _open(point: _Point, pages: int, uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, factory=_Dying
    )
    connection.point = point
    sqlite3.Connection.execute(connection, f"PRAGMA wal_autocheckpoint={pages}")
    return connection


def write(path: Path, acknowledged: Connection, plan: Plan) -> None:
    """Run as a process: write until killed, or ``exchanges`` requests with their replies."""
    anyio.run(_write, path, acknowledged, plan, backend=plan.backend)


async def _write(path: Path, acknowledged: Connection, plan: Plan) -> None:
    point = _Point(plan)
    async with LogWriter(path, opener=partial(_open, point, plan.checkpoint_pages)) as log:
        run = log.create_run(plan.name) if plan.run is None else plan.run

        async def committed(text: str, blobs: list[Blob]) -> Event:
            event = log.append(run, StopRequested(source=text), blobs)
            if blobs:
                point("reply appended")
            await log.durable(event)
            acknowledged.send((event.seq, text))
            return event

        async def worker(number: int) -> None:
            for count in range(plan.exchanges):
                name = f"{plan.name} {number} {count}"
                await committed(f"request {name}", [])
                point("request committed")
                await anyio.lowlevel.checkpoint()
                point("reply arrived")
                text = Blob.text("reply", f"reply {name} " * (1 + 40 * (count % 30)))
                await committed(f"reply {name}", [text, Blob.text("system", "always" * 99)])

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(worker, number)
    point("closed")


def obey(path: Path, backend: str, orders: Connection) -> None:
    """Run as a process: a writer that does as it is told, to its end or a kill."""
    anyio.run(_obey, path, orders, backend=backend)


async def _obey(path: Path, orders: Connection) -> None:
    async with LogWriter(path) as log:
        written: dict[tuple[int, int], Event] = {}
        while True:
            order = await anyio.to_thread.run_sync(orders.recv)
            match order:
                case ("create", uid):
                    orders.send(log.create_run(uid))
                case ("append", run, texts, size, wait):
                    blobs = [Blob("text", texts[0].encode() * size)]
                    events = [log.append(run, StopRequested(source=t), blobs) for t in texts]
                    written |= {(run, event.run_seq): event for event in events}
                    if wait:
                        await log.durable(events[-1])
                    orders.send(events[-1].seq)
                case ("fork", parent, at, (owner, run_seq), uid):
                    # Also of an event that this process has not committed yet.
                    event = written.get((owner, run_seq)) or _stored(path, owner, run_seq)
                    assert event.run_seq == at
                    orders.send(log.fork(parent, event, uid))
                case ("close",):
                    break
    orders.send("closed")


def _stored(path: Path, run: int, run_seq: int) -> Event:
    with LogReader(path) as reader:
        return next(reader.events(run, after=run_seq - 1, upto=run_seq))


def check(path: Path, acknowledged: dict[int, str]) -> int:
    """The log is intact and has all that was acknowledged; how many events it has."""
    with LogReader(path) as reader:
        assert verify_log(reader).problems == []
        found: dict[int, str] = {}
        for run in reader.runs():
            found |= {e.seq: e.body.source for e in reader.events(run.run_id)}  # type: ignore[attr-defined]
    assert acknowledged.items() <= found.items()
    return len(found)
