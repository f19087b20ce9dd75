"""Flipped bits and cut files: named by ``verify``, and the intact rest saved by ``recover``."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from events.bodies import StopRequested
from events.connect import PAGE_BYTES, open_sqlite
from events.envelope import Blob, Event
from events.errors import LogError
from events.reader import LogReader
from events.recovery.recover import Recovery, recover_log
from events.redact import redact
from events.verify import verify_file
from events.writer import LogWriter
from tests.cli.conftest import run_engine
from tests.thorough import THOROUGH

Told = dict[str, list[tuple[Event, list[bytes]]]]


async def _fill(log: LogWriter, count: int) -> None:
    chance = random.Random(3)
    runs = [log.create_run(uid) for uid in ("aa11", "bb22")]
    for number in range(count):
        data = chance.randbytes(chance.choice([20, 600, 3000, 30_000]))
        blobs = [Blob("prompt", b"system " * 300), Blob("text", data)]
        body = StopRequested(source=f"{number} " + "x" * chance.choice([3, 300, 9000]))
        event = log.append(runs[number % 2], body, blobs[: number % 3])
        await log.durable(event)
        if number == 20:
            fork = log.fork(runs[0], event, "cc33")
        if number >= 20 and number % 10 == 0:
            await log.durable(log.append(fork, body, blobs))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, closed cleanly: one file."""
    path = tmp_path_factory.mktemp("damage") / "log.db"

    async def fill() -> None:
        async with LogWriter(path) as log:
            await _fill(log, 150)

    anyio.run(fill)
    return path


@pytest.fixture(scope="module")
def left_open(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a kill leaves it: a part in the file, a part in its ``-wal``."""
    folder = tmp_path_factory.mktemp("killed")

    def often(uri: str) -> sqlite3.Connection:
        connection = open_sqlite(uri)
        connection.execute("PRAGMA wal_autocheckpoint=50")
        return connection

    async def fill() -> None:
        async with LogWriter(folder / "live.db", opener=often) as log:
            await _fill(log, 70)
            for suffix in ("", "-wal"):
                shutil.copy(folder / f"live.db{suffix}", folder / f"log.db{suffix}")

    anyio.run(fill)
    assert (folder / "log.db-wal").stat().st_size > 20 * PAGE_BYTES
    return folder / "log.db"


def contents(path: Path) -> Told:
    """Each run's own events."""
    with LogReader(path) as reader:
        return {
            run.uid: [
                (event, [reader.blob(sha) for sha in event.blobs])
                for event in reader.events(run.run_id)
                if event.run_id == run.run_id
            ]
            for run in reader.runs()
        }


def hashes(told: Told) -> dict[str, list[bytes]]:
    return {uid: [event.hash for event, _ in events] for uid, events in told.items()}


class Damaged:
    """Does damage to copies of a log and keeps the score."""

    def __init__(self, original: Path, folder: Path) -> None:
        self.original, self.path = original, folder / "log.db"
        self.new = folder / "new.db"
        self.written = contents(original)
        self.score: Counter[str] = Counter()
        self.files = [p for s in ("", "-wal") if (p := Path(f"{original}{s}")).exists()]

    def look(self, file: Path, content: bytes) -> Recovery | None:
        """``content`` instead of what ``file`` held: nothing may be wrong and go unnoticed."""
        for stale in self.path.parent.iterdir():
            stale.unlink()
        for name in self.files:
            copy = self.path.with_name(name.name)
            copy.write_bytes(content if name == file else name.read_bytes())
        before = self.path.read_bytes()
        recovery = self._recovered()
        assert self.path.read_bytes() == before
        if self._amiss():
            self.score["found"] += 1
            return recovery
        assert recovery is not None
        read = contents(self.path)
        if file.name.endswith("-wal") and hashes(read) != hashes(self.written):
            # A torn last transaction: as a power cut leaves it before it is acknowledged.
            self.score["the end of the -wal"] += 1
            assert all(self._is_prefix(uid, events) for uid, events in read.items())
            return recovery
        assert read == self.written
        assert recovery.whole
        self.score["harmless"] += 1
        return recovery

    def _amiss(self) -> list[str]:
        try:
            return [problem.what for problem in verify_file(self.path).problems]
        except LogError as error:  # not a log at all any more
            return [str(error)]

    def _recovered(self) -> Recovery | None:
        try:
            recovery = recover_log(self.path, self.new)
        except LogError:
            return None
        assert verify_file(self.new).problems == []
        saved = contents(self.new)
        assert all(self._is_prefix(uid, events) for uid, events in saved.items())
        told = {run.uid: run.saved for run in recovery.runs if run.saved}
        assert {uid: len(events) for uid, events in saved.items()} == told
        lost = sum(len(e) for e in self.written.values()) - recovery.events
        self.score["events lost"] += lost
        self.score["events kept"] += recovery.events
        return recovery

    def _is_prefix(self, uid: str, events: list[tuple[Event, list[bytes]]]) -> bool:
        first = self.written[uid][: len(events)]
        return [(e.hash, blobs) for e, blobs in events] == [(e.hash, blobs) for e, blobs in first]


def flips(damaged: Damaged, chance: random.Random, file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(chance.choice([1, 1, 8])):
        where = min(len(data) - 1, at + chance.randrange(16))
        data[where] ^= 1 << chance.randrange(8)
    damaged.look(file, bytes(data))


@pytest.mark.parametrize("state", ["closed", "left_open"])
def test_flipped_bits(
    state: str, request: pytest.FixtureRequest, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Somewhere in every page, and where pages and files begin: that is where they are read."""
    original: Path = request.getfixturevalue(state)
    damaged, chance = Damaged(original, tmp_path), random.Random(5)
    count = 0
    for file in damaged.files:
        size = file.stat().st_size
        places = [*range(0, 112, 8), *range(0, size, PAGE_BYTES)]
        places += [
            at + chance.randrange(PAGE_BYTES) for at in range(0, size - PAGE_BYTES, PAGE_BYTES)
        ]
        chosen = places * 4 if THOROUGH else chance.sample(places, 20)
        for at in chosen:
            flips(damaged, chance, file, at)
            count += 1
    tell(f"flips ({state}): {count} in {len(damaged.files)} files, {dict(damaged.score)}")


@pytest.mark.parametrize("state", ["closed", "left_open"])
def test_cut_files(
    state: str, request: pytest.FixtureRequest, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    original: Path = request.getfixturevalue(state)
    damaged, chance = Damaged(original, tmp_path), random.Random(6)
    for file in damaged.files:
        data = file.read_bytes()
        for _ in range(300 if THOROUGH else 8):
            damaged.look(file, data[: chance.randrange(len(data))])
    tell(f"cuts ({state}): {dict(damaged.score)}")


@pytest.mark.process
def test_a_damaged_text_is_named_and_ends_its_run(closed: Path, tmp_path: Path) -> None:
    damaged = Damaged(closed, tmp_path)
    event, (_, blob) = damaged.written["bb22"][41]
    data = bytearray(closed.read_bytes())
    at = data.index(blob[:8])
    data[at + 4] ^= 1
    recovery = damaged.look(closed, bytes(data))
    assert recovery is not None
    one, two, three = recovery.runs
    assert (one.saved, one.lost, one.why) == (75, 0, "")
    assert (three.saved, three.lost) == (13, 0)
    assert (two.saved, two.lost, two.lost_blobs) == (41, 34, [event.blobs[1]])
    assert two.lost_seqs == [e.seq for e, _ in damaged.written["bb22"][41:]]
    assert "event 42 of the run (StopRequested) has lost blobs: text" in two.why
    done = run_engine("verify", damaged.path)
    assert (done.returncode, event.blobs[1][:12] in done.stdout) == (5, True)
    assert "engine recover" in done.stderr
    done = run_engine("recover", damaged.path, "-o", tmp_path / "saved.db")
    assert (done.returncode, done.stderr) == (5, "")
    assert "run 2 bb22: 41 events saved, 34 lost" in done.stdout
    done = run_engine("recover", damaged.path, "-o", tmp_path / "saved.db")
    assert (done.returncode, "already" in done.stderr) == (2, True)


@pytest.mark.process
def test_a_damaged_header_hides_nothing(closed: Path, tmp_path: Path) -> None:
    damaged = Damaged(closed, tmp_path)
    recovery = damaged.look(closed, b"#!/bin/sh\n" * 10 + closed.read_bytes()[100:])
    assert recovery is not None
    assert recovery.whole
    done = run_engine("verify", damaged.path)
    assert (done.returncode, "it has rows of a log" in done.stdout) == (5, True)


@pytest.mark.parametrize("run", ["aa11", "bb22", "cc33"])
@pytest.mark.parametrize("place", ["the row", "the index", "the time", "the parent"])
def test_a_damaged_row_of_a_run_is_made_again(
    closed: Path, tmp_path: Path, run: str, place: str
) -> None:
    """Every field has a second source: the index, the numbers, and the hash that covers it."""
    damaged, data = Damaged(closed, tmp_path), closed.read_bytes()
    name, time = run.encode(), _created(closed, run)
    # A row is its uid, then its time and for a fork its parent; in the index a number follows.
    row = data.index(name + time)
    at = {"row": row, "time": row + 4 + 3, "parent": row + 4 + len(time)}.get(place[4:])
    if at is None:
        at = next(i for i in _places(data, name) if i != row)
    if place == "the parent" and run != "cc33":
        return
    recovery = damaged.look(closed, data[:at] + bytes([data[at] ^ 6]) + data[at + 1 :])
    assert recovery is not None
    assert recovery.whole
    assert {one.uid: one.rebuilt for one in recovery.runs} == {
        uid: uid == run and place != "the index" for uid in ("aa11", "bb22", "cc33")
    }
    assert contents(damaged.new).keys() == damaged.written.keys()


def _created(path: Path, uid: str) -> bytes:
    with LogReader(path) as reader:
        return reader.find_run(uid).created_us.to_bytes(8, "big")


def _places(data: bytes, name: bytes) -> Iterator[int]:
    at = -1
    while (at := data.find(name, at + 1)) >= 0:
        yield at


def test_a_lost_row_of_a_run_is_found_again_by_its_first_event(
    closed: Path, tmp_path: Path
) -> None:
    """Nothing of the row is left but its uid in the index."""
    damaged, data = Damaged(closed, tmp_path), bytearray(closed.read_bytes())
    for run in ("aa11", "cc33"):
        row = data.index(run.encode() + _created(closed, run))
        data[row + 2] = 0xFF  # no UTF-8: no row
    recovery = damaged.look(closed, bytes(data))
    assert recovery is not None
    assert recovery.whole
    assert [one.rebuilt for one in recovery.runs] == [True, False, True]


def test_a_redacted_log_is_recovered_with_its_tombstones(tmp_path: Path) -> None:
    history = Path(__file__).parents[1] / "histories" / "0.1" / "stark_softmax_h200.db"
    redacted, new = tmp_path / "redacted.db", tmp_path / "new.db"
    with LogReader(history) as reader:
        redact(reader, redacted)
    data = bytearray(redacted.read_bytes())
    data[:16] = bytes(16)  # SQLite does not know the file any more
    redacted.write_bytes(data)
    recovery = recover_log(redacted, new)
    assert recovery.whole
    assert recovery.redacted == recovery.blobs > 100
    check, original = verify_file(new), verify_file(history)
    assert (check.problems, check.head) == ([], original.head)
    assert check.redacted == recovery.blobs
