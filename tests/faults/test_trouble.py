"""Disk full, I/O errors, files that go away, clocks that go back: a clear error, and nothing
that was acknowledged is lost."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import apsw
import pytest

from events.bodies import StopRequested
from events.connect import open_sqlite
from events.envelope import Blob
from events.errors import LogError, LogUnreadable, WriterFailed
from events.reader import LogReader
from events.recovery.recover import recover_log
from events.verify import verify_log
from events.writer import LogWriter
from tests.faults.vfs import Op, Recording, open_through
from tests.thorough import THOROUGH

pytestmark = pytest.mark.anyio


async def append(log: LogWriter, text: str, size: int = 100) -> None:
    run = 1 if log._tails else log.create_run("ab12")
    await log.durable(log.append(run, StopRequested(source=text), [Blob("b", os.urandom(size))]))


def sources(path: Path) -> list[str]:
    with LogReader(path) as reader:
        assert verify_log(reader).problems == []
        return [event.body.source for event in reader.events(1)]  # type: ignore[attr-defined]


# -- disk full ---------------------------------------------------------------------------

FULL = """
import anyio, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.faults import test_trouble
folder = Path(sys.argv[2])
os.mkdir(folder)
assert os.system(f"mount -t tmpfs -o size=2m tmpfs {folder}") == 0
anyio.run(test_trouble.fill_the_disk, folder)
"""


async def fill_the_disk(folder: Path) -> None:
    """On a file system of 2 MB, most of it taken: what can be made room with is ballast."""
    path, ballast = folder / "log.db", folder / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    kept: list[str] = []

    async def fill(size: int) -> None:
        async with LogWriter(path) as log:
            for number in range(len(kept), 1000):
                await append(log, str(number), size)
                kept.append(str(number))

    with pytest.raises(WriterFailed, match="database or disk is full"):
        await fill(5000)
    assert len(kept) > 10
    assert sources(path) == kept
    with pytest.raises(LogError, match="full"):
        await fill(50_000)
    before = sources(path)
    assert before[: len(kept)] == kept
    ballast.unlink()
    async with LogWriter(path) as log:
        await append(log, "room again")
    assert sources(path) == [*before, "room again"]


@pytest.mark.process
async def test_disk_full(tmp_path: Path, anyio_backend: str) -> None:
    unshare = ["unshare", "-Urm"]
    if (
        not shutil.which("unshare")
        or (await anyio.run_process([*unshare, "true"], check=False)).returncode
    ):
        pytest.skip("no mount namespaces here; tests/events fills a disk by RLIMIT_FSIZE")
    program = FULL.replace("folder)\n\n", f"folder, backend={anyio_backend!r})\n")
    done = await anyio.run_process(
        [*unshare, sys.executable, "-c", program, str(Path(__file__).parents[2]),
         str(tmp_path / "small")], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()


# -- I/O errors --------------------------------------------------------------------------


class Failing:
    """The ``count``-th operation of its kind fails, and all later ones if the disk is gone."""

    def __init__(self, what: str, count: int, gone: bool) -> None:
        self.what, self.left, self.gone = what, count, gone

    def __call__(self, op: Op) -> None:
        if op.what == self.what:
            self.left -= 1
            if self.left == 0 or (self.left < 0 and self.gone):
                raise apsw.IOError if self.what != "write" else apsw.FullError


# APSW also reports what a VFS raises while SQLite cleans up, where nobody can catch it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_io_errors(tmp_path: Path, tell: Callable[[str], None]) -> None:
    chance = random.Random(4)
    said: list[str] = []
    for number in range(600 if THOROUGH else 30):
        path = tmp_path / f"{number}.db"
        failing = Failing(
            chance.choice(["write", "sync", "truncate", "delete", "open"]),
            chance.choice([1, 2, 3, 5, 8, 20]), chance.random() < 0.5,
        )  # fmt: skip
        recording = Recording("failing", failing)
        kept: list[str] = []
        try:
            async with LogWriter(path, opener=open_through(recording, checkpoint_pages=8)) as log:
                for count in range(15):
                    await append(log, str(count), 3000)
                    kept.append(str(count))
        except LogError as error:
            said.append(str(error))
        finally:
            recording.unregister()
        async with LogWriter(path) as log:
            await append(log, "after")
        found = sources(path)
        assert found[: len(kept)] == kept
        assert found[-1] == "after"
    assert len(said) >= 10
    assert all(".db" in message for message in said)
    tell(f"I/O errors: {len(said)} writers failed")


async def test_a_failed_sync_is_the_end_of_the_writer(tmp_path: Path) -> None:
    """What a failed fsync left in the page cache can't be trusted: nothing more is tried."""
    path = tmp_path / "log.db"
    failing = Failing("sync", 10**9, gone=False)
    recording = Recording("failing", failing)
    async with LogWriter(path, opener=open_through(recording)) as log:
        await append(log, "kept")
        failing.left = 1
        with pytest.raises(WriterFailed, match=r"log\.db"):
            await append(log, "refused")
        before = len(recording.ops)
        with pytest.raises(WriterFailed, match=r"log\.db"):
            await append(log, "refused too")
        assert len(recording.ops) == before
    recording.unregister()
    assert sources(path)[0] == "kept"


# -- files -------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", ".lock"])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_files_that_go_away_under_the_writer(tmp_path: Path, suffix: str, how: str) -> None:
    path = tmp_path / "log.db"
    victim, other = Path(f"{path}{suffix}"), tmp_path / "other"
    other.write_bytes(b"somebody else's")
    async with LogWriter(path) as log:
        await append(log, "kept")
        if how == "deleted":
            os.unlink(victim)
        else:
            os.replace(other, victim)
        with pytest.raises(WriterFailed, match=rf"log\.db{suffix} was {how}"):
            await append(log, "lost")
        with pytest.raises(WriterFailed):
            await append(log, "lost too")
    if suffix:
        assert sources(path) == ["kept"]
        async with LogWriter(path) as log:
            await append(log, "after")
        assert sources(path) == ["kept", "after"]
    elif how == "replaced":
        assert path.read_bytes() == b"somebody else's"
    else:
        assert not path.exists()


async def test_a_new_log_in_the_place_of_an_old_one_is_let_alone(tmp_path: Path) -> None:
    """Closing the old one must not remove the new one's ``-wal``, which has the same name."""
    path = tmp_path / "log.db"
    async with LogWriter(path) as old:
        await append(old, "old")
        for name in os.listdir(tmp_path):
            os.unlink(tmp_path / name)
        new = await LogWriter(path).__aenter__()
        await append(new, "new")
        with pytest.raises(WriterFailed, match="was replaced"):
            await append(old, "old again")
    await append(new, "newer")
    for suffix in ("", "-wal"):  # as a kill would leave it
        shutil.copy(f"{path}{suffix}", tmp_path / f"copy.db{suffix}")
    await new.__aexit__(None, None, None)
    assert sources(path) == sources(tmp_path / "copy.db") == ["new", "newer"]


async def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path) as log:
        await append(log, "kept")

    def read_only(uri: str):  # type: ignore[no-untyped-def]
        # Root may write to any file: SQLite falls back to this by itself for others.
        return open_sqlite(uri.replace("mode=rwc", "mode=ro"))

    with pytest.raises(LogUnreadable, match="the log can't be written"):
        LogWriter(path, opener=read_only)
    assert sources(path) == ["kept"]


async def test_a_clock_that_goes_back(tmp_path: Path) -> None:
    path, now = tmp_path / "log.db", iter(range(10**15, 0, -(10**12)))
    for _ in range(2):
        async with LogWriter(path, clock_us=lambda: next(now)) as log:
            for number in range(5):
                await append(log, str(number))
    assert sources(path) == [*"01234", *"01234"]
    assert recover_log(path, tmp_path / "new.db").whole
