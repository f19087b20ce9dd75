"""The power goes at every write, truncation and sync of a recorded session."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from events.bodies import StopRequested
from events.envelope import Blob
from events.errors import NotALog
from events.reader import LogReader
from events.verify import verify_log
from events.writer import LogWriter
from tests.faults.disk import MOODS, Disk
from tests.faults.vfs import Op, Recording, open_through
from tests.thorough import THOROUGH

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what reaches the disk is the writer's thread's doing on both


@pytest.fixture
def memory() -> Iterator[Path]:
    """Thousands of small files: kept off the disk where the machine has a place for that."""
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def text_of(seq: int) -> str:
    return f"event {seq}"


async def session(path: Path, recording: Recording, events: int, **how: int) -> None:
    """Append singly and in groups, with texts that fit a page and texts that do not."""
    chance = random.Random(events)
    async with LogWriter(path, opener=open_through(recording, **how)) as log:
        run = 1 if log._tails else log.create_run("ab12")
        while events:
            group = min(events, chance.choice([1, 1, 1, 3, 7]))
            events -= group
            for _ in range(group):
                blob = Blob("text", chance.randbytes(chance.choice([50, 500, 3000, 20000])))
                event = log.append(run, StopRequested(source=text_of(log._seq + 1)), [blob])
            await log.durable(event)


async def record(folder: Path) -> list[Op]:
    """Three writers in turn; the second and third checkpoint and begin their WAL anew often."""
    recording = Recording("recording")
    path = folder / "log.db"
    await session(path, recording, 12)
    await session(path, recording, 200 if THOROUGH else 40, checkpoint_pages=8)
    await session(path, recording, 70 if THOROUGH else 10, checkpoint_pages=2)
    recording.unregister()
    return recording.ops


async def survives(folder: Path, image: dict[str, bytes], committed: int) -> None:
    """Reopen, append, read: whatever was acknowledged is there, and nothing is amiss."""
    for name, content in image.items():
        (folder / name).write_bytes(content)
    path = folder / "log.db"
    if committed:
        with LogReader(path) as reader:
            assert verify_log(reader).problems == []
    async with LogWriter(path) as log:
        run = 1 if log._tails else log.create_run("cd34")
        kept = log._seq
        assert kept >= committed
        await log.durable(log.append(run, StopRequested(source="after")))
    with LogReader(path) as reader:
        assert verify_log(reader).problems == []
        found = [event.body.source for event in reader.events(run)]  # type: ignore[attr-defined]
    assert found == [*(text_of(seq) for seq in range(1, kept + 1)), "after"]
    for name in os.listdir(folder):
        (folder / name).unlink()


async def test_power_loss(memory: Path, tell: Callable[[str], None]) -> None:
    (memory / "recorded").mkdir()
    (memory / "crashed").mkdir()
    ops = await record(memory / "recorded")
    chance = random.Random(7)
    disk, seen, points = Disk(), set[bytes](), 0
    every = 1 if THOROUGH else 19
    for number, op in enumerate(ops):
        disk.feed(op)
        for mood in MOODS if number % every == 0 else ():
            points += 1
            image = disk.image(mood, chance)
            digest = hashlib.sha256(repr((disk.committed, sorted(image.items()))).encode())
            if digest.digest() in seen:
                continue  # nothing was pending: the same disk as in another mood
            seen.add(digest.digest())
            await survives(memory / "crashed", image, disk.committed)
    assert len(seen) > (10_000 if THOROUGH else 100)
    tell(f"power loss: {points} crash points after {len(ops)} operations, {len(seen)} distinct")


async def test_the_disk_does_forget(memory: Path) -> None:
    """Without the sync before a commit is acknowledged, the same check finds losses."""
    recording = Recording("careless")
    opener = open_through(recording)

    def careless(uri: str):  # type: ignore[no-untyped-def]
        connection = opener(uri)
        execute = connection.execute
        connection.execute = lambda sql, *values: execute(  # type: ignore[method-assign]
            sql.replace("synchronous=FULL", "synchronous=NORMAL"), *values
        )
        return connection

    async with LogWriter(memory / "log.db", opener=careless) as log:
        run = log.create_run("ab12")
        for seq in range(1, 6):
            await log.durable(log.append(run, StopRequested(source=text_of(seq))))
        ops = list(recording.ops)
    recording.unregister()
    disk = Disk()
    for op in ops:
        disk.feed(op)
    folder = memory / "crashed"
    folder.mkdir()
    with pytest.raises((AssertionError, NotALog)):
        await survives(folder, disk.image("lost", random.Random(1)), disk.committed)
