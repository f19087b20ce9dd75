"""One writer at a time, whatever becomes of locks and processes; readers are never in its way."""

from __future__ import annotations

import logging
import os
import signal
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

import anyio
import pytest

from events.bodies import StopRequested
from events.envelope import Blob
from events.errors import LogInUse, WriterFailed
from events.reader import LogReader
from events.recovery import wal
from events.verify import verify_log
from events.writer import LogWriter

pytestmark = pytest.mark.anyio


def zombie(path: Path, orders: Connection) -> None:
    """Append ``first``; at the next order try ``late``, and say how that ended."""

    async def work() -> None:
        async with LogWriter(path) as log:
            run = log.create_run("ab12")
            await log.durable(log.append(run, StopRequested(source="first")))
            orders.send(os.getpid())
            orders.recv()
            try:
                await log.durable(log.append(run, StopRequested(source="late")))
            except WriterFailed as error:
                orders.send(str(error))
            else:
                orders.send("appended")
        orders.send("closed")

    anyio.run(work)


def sources(path: Path) -> list[str]:
    with LogReader(path) as reader:
        assert verify_log(reader).problems == []
        return [event.body.source for event in reader.events(1)]  # type: ignore[attr-defined]


@pytest.mark.process
@pytest.mark.parametrize("new_writes_first", [True, False])
async def test_a_zombie_can_not_append_after_a_takeover(
    tmp_path: Path, processes: ForkServerContext, new_writes_first: bool
) -> None:
    """It is stopped, its lock file is deleted, another process takes over; then it wakes up."""
    path = tmp_path / "log.db"
    orders, theirs = processes.Pipe()
    process = processes.Process(target=zombie, args=(path, theirs))
    process.start()
    pid = orders.recv()
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(LogInUse, match=f"process {pid}"):
        LogWriter(path)
    path.with_name("log.db.lock").unlink()
    async with LogWriter(path) as log:
        if new_writes_first:
            await log.durable(log.append(1, StopRequested(source="second")))
        os.kill(pid, signal.SIGCONT)
        orders.send("go on")
        said = await anyio.to_thread.run_sync(orders.recv)
        assert "log.db.lock was replaced, so another process may write this log now" in said
        assert await anyio.to_thread.run_sync(orders.recv) == "closed"
        await log.durable(log.append(1, StopRequested(source="last")))
    process.join()
    assert sources(path) == ["first", *(["second"] if new_writes_first else []), "last"]


async def test_a_writer_without_the_lock_in_mid_write_is_not_waited_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path) as log:
        await log.durable(log.append(log.create_run("ab12"), StopRequested(source="first")))
        path.with_name("log.db.lock").unlink()
        connection = log._connection
        connection.execute("BEGIN IMMEDIATE")  # what a process stopped in mid-commit holds

        def impatient(uri: str):  # type: ignore[no-untyped-def]
            from events.connect import open_sqlite

            opened = open_sqlite(uri)
            opened.execute("PRAGMA busy_timeout=50")
            return opened

        with pytest.raises(LogInUse, match="in the middle of a write"):
            LogWriter(path, opener=impatient)
        connection.execute("ROLLBACK")


def hold_a_snapshot(path: Path, told: Connection) -> None:
    with LogReader(path) as reader:
        reader.connection.execute("BEGIN")
        told.send(reader.connection.execute("SELECT count(*) FROM events").fetchone()[0])
        told.recv()
        told.send(reader.connection.execute("SELECT count(*) FROM events").fetchone()[0])


@pytest.mark.process
async def test_a_reader_never_blocks_the_writer_but_is_named_when_the_wal_grows(
    tmp_path: Path,
    processes: ForkServerContext,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(wal, "WARN_FROM_BYTES", 1 << 20)
    path = tmp_path / "log.db"
    orders, theirs = processes.Pipe()
    async with LogWriter(path) as log:
        run = log.create_run("ab12")
        await log.durable(log.append(run, StopRequested(source="0")))
        reader = processes.Process(target=hold_a_snapshot, args=(path, theirs))
        reader.start()
        assert await anyio.to_thread.run_sync(orders.recv) == 1
        with caplog.at_level(logging.WARNING, logger="events.recovery.wal"), anyio.fail_after(20):
            for number in range(1, 61):
                blob = Blob("text", os.urandom(100_000))
                event = log.append(run, StopRequested(source=str(number)), [blob])
                await log.durable(event)
        warned = [record.getMessage() for record in caplog.records]
        assert 1 < len(warned) < 6  # at 1 MB and whenever it has doubled
        assert f"process {reader.pid} reads an old state" in warned[0]
        orders.send("let go")
        assert await anyio.to_thread.run_sync(orders.recv) == 1
        reader.join()
    assert sources(path) == [str(number) for number in range(61)]
    assert not path.with_name("log.db-wal").exists()


async def test_without_readers_the_wal_stays_small(tmp_path: Path) -> None:
    path, largest = tmp_path / "log.db", 0
    async with LogWriter(path) as log:
        run = log.create_run("ab12")
        for number in range(40):
            blob = Blob("text", os.urandom(500_000))
            await log.durable(log.append(run, StopRequested(source=str(number)), [blob]))
            largest = max(largest, path.with_name("log.db-wal").stat().st_size)
    assert largest < 10 << 20  # 1000 pages of 8 KB, and the transaction that went past them
