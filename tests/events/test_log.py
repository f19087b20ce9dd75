"""The log through its public seam, on real files."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

import anyio
import msgspec
import pytest

from events import upcast
from events.bodies import (
    BODIES,
    AgentReplied,
    BaselineMeasured,
    Body,
    ReplyRejected,
    StopRequested,
    Usage,
)
from events.codec import decode_body, encode_body
from events.connect import FORMAT, connect_read_only, connect_read_write
from events.envelope import Blob
from events.errors import (
    BodyInvalid,
    LogDamaged,
    LogInUse,
    LogUnreadable,
    NewerFormat,
    NotALog,
    RunUnknown,
    WriterFailed,
)
from events.lock import WriterLock, holder, lock_path
from events.reader import LogReader
from events.verify import verify_file, verify_log
from events.writer import LogWriter

pytestmark = pytest.mark.anyio


def note(text: str) -> Body:
    return StopRequested(source=text)


async def write(path: Path, count: int = 5) -> None:
    async with LogWriter(path) as log:
        run = log.create_run("ab12")
        for number in range(count):
            event = log.append(run, note(str(number)), [Blob.text("text", "x" * 500)])
        await log.durable(event)


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


async def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    reply = AgentReplied(
        attempt=1, role="plan", call=1, try_=1, usage=Usage(output_tokens=3), latency_ms=5,
        stop_reason="end_turn", served_by="m", sent={"temperature": 0.8}, reply_sha256="0" * 64,
    )  # fmt: skip
    async with LogWriter(path) as log:
        run = log.create_run("ab12")
        first = log.append(run, reply, [Blob.text("reply", "hé" * 200), Blob.text("b", "short")])
        second = log.append(run, note("x"))
        await log.durable(second)
        with LogReader(path) as reader:  # while it is being written
            assert list(reader.events(run)) == [first, second]
            assert reader.text(first.blobs[0]) == "hé" * 200
            assert [name for name, _ in reader.blob_names(1)] == ["reply", "b"]
            assert list(reader.events(run, after=1)) == [second]
            assert list(reader.events(run, upto=1)) == [first]
    assert not path.with_name("log.db-wal").exists()


async def test_a_log_of_a_run_that_never_began_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path):
        pass  # killed here, there is no run
    with LogReader(path) as reader:
        for name in (None, "1", "ab"):
            with pytest.raises(RunUnknown, match=r"holds no run: .* can begin in this file"):
                reader.find_run(name)
    async with LogWriter(path) as log:
        await log.durable(log.append(log.create_run("aa"), note("x")))
    with LogReader(path) as reader:
        assert reader.find_run(None).uid == "aa"


async def test_runs_share_a_file_and_count_for_themselves(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path) as log:
        one, two = log.create_run("aa"), log.create_run("bb")
        for run in (one, two, one, two, two):
            await log.durable(log.append(run, note("x")))
    with LogReader(path) as reader:
        assert [event.run_seq for event in reader.events(one)] == [1, 2]
        assert [event.seq for event in reader.events(two)] == [2, 4, 5]
        assert reader.find_run("2").uid == "bb"
        assert reader.find_run("a").run_id == one
        with pytest.raises(RunUnknown, match="holds 2 runs"):
            reader.find_run(None)
        assert verify_log(reader).problems == []


async def test_a_reopened_log_goes_on_with_the_next_epoch(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path, 2)
    async with LogWriter(path) as log:
        event = log.append(1, note("later"))
        await log.durable(event)
    assert (event.seq, event.run_seq, event.epoch) == (3, 3, 2)
    with LogReader(path) as reader:
        assert verify_log(reader).problems == []


async def test_many_tasks_share_commits_and_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path) as log:
        run = log.create_run("ab12")

        async def task(number: int) -> None:
            for _ in range(20):
                await log.durable(log.append(run, note(str(number))))

        async with anyio.create_task_group() as tasks:
            for number in range(32):
                tasks.start_soon(task, number)
    with LogReader(path) as reader:
        assert [event.seq for event in reader.events(run)] == list(range(1, 641))
        assert verify_log(reader).problems == []


async def test_durable_is_not_cancelled(tmp_path: Path) -> None:
    async with LogWriter(tmp_path / "log.db") as log:
        run = log.create_run("ab12")
        with anyio.CancelScope() as scope:
            event = log.append(run, note("x"))
            scope.cancel()
            await log.durable(event)
        with LogReader(tmp_path / "log.db") as reader:
            assert len(list(reader.events(run))) == 1


async def test_equal_texts_are_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path, 50)
    with LogReader(path) as reader:
        assert reader.connection.execute("SELECT count(*) FROM blobs").fetchone() == (1,)
        assert verify_log(reader).blobs == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
async def test_numbers_that_json_lacks_are_refused_and_nothing_is_appended(
    tmp_path: Path, value: float
) -> None:
    bad = BaselineMeasured(runtime_ms=value, spread=0, repetitions=1, timings_s={}, isolation=[])
    async with LogWriter(tmp_path / "log.db") as log:
        run = log.create_run("ab12")
        with pytest.raises(BodyInvalid):
            log.append(run, bad)
        assert log.append(run, note("x")).seq == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = 'x' WHERE seq = 1",
        "DELETE FROM events WHERE seq = 5",
        "INSERT OR REPLACE INTO events SELECT * FROM events WHERE seq = 3",
        "INSERT OR REPLACE INTO events SELECT 6, run_id, 3, epoch, kind, type, ver, ts_us, body,"
        " hash FROM events WHERE seq = 3",
        "INSERT INTO events SELECT 7, run_id, 6, epoch, kind, type, ver, ts_us, body, hash"
        " FROM events WHERE seq = 3",
        "INSERT INTO events SELECT NULL, run_id, 6, epoch, kind, type, ver, ts_us, body, hash"
        " FROM events WHERE seq = 3",
        "INSERT INTO events SELECT 6, run_id, 6, 0, kind, type, ver, ts_us, body, hash"
        " FROM events WHERE seq = 3",
        "UPDATE runs SET uid = 'x'",
        "DELETE FROM runs",
        "INSERT OR REPLACE INTO runs VALUES (1, 'zz', 0, NULL, NULL)",
        "INSERT OR REPLACE INTO runs VALUES (2, 'ab12', 0, NULL, NULL)",
        "UPDATE blob_data SET data = x'00'",
        "INSERT OR REPLACE INTO blob_data (id, sha256, codec, size, data)"
        " VALUES (1, zeroblob(32), 'raw', 1, x'00')",
        "INSERT OR REPLACE INTO blob_data (rowid, sha256, codec, size, data)"
        " VALUES (1, zeroblob(32), 'raw', 1, x'00')",
        "DELETE FROM blob_data",
        "DELETE FROM blob_refs",
        "UPDATE blob_refs SET name = 'y'",
        "INSERT OR REPLACE INTO blob_refs SELECT * FROM blob_refs WHERE seq = 5",
        "INSERT INTO blob_refs SELECT 1, 1, name, blob FROM blob_refs WHERE seq = 1",
    ],
)
async def test_the_file_itself_refuses_to_be_rewritten(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "log.db"
    await write(path)
    connection = raw(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


async def test_a_base_is_an_earlier_text_that_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path)
    connection = raw(path)
    insert = "INSERT INTO blob_data VALUES (?, ?, 'zlib', 1, ?, x'00')"
    connection.execute(insert, (2, b"2" * 32, 1))
    for number, base in ((3, 2), (3, 3), (3, 9)):
        with pytest.raises(sqlite3.IntegrityError, match="append-only: a base"):
            connection.execute(insert, (number, b"3" * 32, base))
    connection.close()


async def test_replacing_a_blob_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path)
    connection = raw(path)
    connection.execute(
        "INSERT OR REPLACE INTO blob_data (id, sha256, codec, size, data)"
        " SELECT 9, sha256, 'raw', 3, x'626164' FROM blob_data"
    )
    (sha,) = connection.execute("SELECT sha256 FROM blobs").fetchone()
    connection.close()
    with LogReader(path) as reader:
        assert reader.text(sha) == "x" * 500


@pytest.mark.parametrize(
    "statement",
    ["ATTACH ':memory:' AS other", "PRAGMA journal_mode=OFF", "DROP TABLE events",
     "UPDATE runs SET uid = 1", "CREATE TABLE t (x)"],
)  # fmt: skip
async def test_connections_are_denied_what_they_do_not_need(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "log.db"
    await write(path)
    for connect in (connect_read_only, connect_read_write):
        connection = connect(path)
        with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited"):
            connection.execute(statement)
        connection.close()


@pytest.mark.parametrize(
    "statement", ["SELECT load_extension('x')", "SELECT [not authorized] FROM runs"]
)
async def test_an_error_that_reads_like_a_refusal_is_no_interrupt(
    tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "log.db"
    await write(path)
    connection = connect_read_only(path)
    with pytest.raises(sqlite3.OperationalError, match="not authorized"):
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "action", [sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION]
)
def test_an_interrupt_while_sqlite_asks_what_is_allowed_is_no_damage(
    tmp_path: Path, action: int
) -> None:
    """SQLite takes what an authorizer raises for a refusal."""
    anyio.run(write, tmp_path / "log.db")
    interrupted = 0

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        nonlocal interrupted
        asked = event == "call" and frame.f_code.co_name == "_allow"
        if asked and frame.f_locals["action"] == action:
            interrupted += 1
            raise KeyboardInterrupt

    with LogReader(tmp_path / "log.db") as reader:
        sys.setprofile(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                reader.newest_epoch()
        finally:
            sys.setprofile(None)
        assert interrupted
        assert reader.newest_epoch() == 1


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("UPDATE events SET body = replace(body, '2', '9') WHERE seq = 3", "does not match"),
        ("UPDATE events SET ts_us = 1 WHERE seq = 3", "does not match"),
        ("UPDATE events SET kind = 'decision' WHERE seq = 3", "does not match"),
        ("DELETE FROM events WHERE seq = 3", "event 3 of the run is missing"),
        ("DELETE FROM blob_refs WHERE seq = 3", "does not match"),
        ("UPDATE blob_refs SET name = 'other' WHERE seq = 3", "does not match"),
        ("UPDATE blob_data SET data = x'00', codec = 'raw'", "is not what its name says"),
        ("UPDATE blob_data SET size = 7", "is not of its stated size"),
        ("DELETE FROM blob_data", "is missing"),
        ("DROP TRIGGER events_update", "the append-only guard events_update was removed"),
        ("UPDATE runs SET uid = 'other'", "does not match"),
        ("UPDATE runs SET created_us = 1", "does not match"),
        ("UPDATE blob_refs SET pos = 4 WHERE seq = 3", "numbered with a gap"),
        (
            "INSERT INTO blob_refs SELECT 77, 0, name, blob FROM blob_refs WHERE seq = 3",
            "refers to nothing in events",
        ),
        ("UPDATE events SET seq = 99 WHERE seq = 2", "stands before an earlier event"),
    ],
)
async def test_verify_finds_what_was_altered(tmp_path: Path, damage: str, found: str) -> None:
    path = tmp_path / "log.db"
    await write(path)
    connection = raw(path)
    connection.execute("BEGIN")  # one sync for all that follows
    triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    definitions = connection.execute(triggers).fetchall()
    for name, _ in definitions:
        connection.execute(f"DROP TRIGGER {name}")
    if not damage.startswith("DROP"):
        connection.execute(damage)
    for name, sql in definitions:
        if damage != f"DROP TRIGGER {name}":
            connection.execute(sql)
    connection.execute("COMMIT")
    connection.close()
    with LogReader(path) as reader:
        problems = verify_log(reader).problems
    assert any(found in problem.what for problem in problems), problems


async def test_a_guard_that_does_nothing_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path)
    connection = raw(path)
    connection.execute("DROP TRIGGER events_update")
    connection.execute("CREATE TRIGGER events_update BEFORE UPDATE ON events BEGIN SELECT 1; END")
    connection.execute("CREATE TRIGGER more AFTER INSERT ON events BEGIN SELECT 1; END")
    connection.execute("DROP VIEW event_blobs")
    connection.execute(
        "CREATE VIEW event_blobs AS SELECT 1 AS seq, 0 AS pos, '' AS name, '' AS sha256"
    )
    connection.close()
    with LogReader(path) as reader:
        found = [problem.what for problem in verify_log(reader).problems]
    assert found[:3] == [
        "event_blobs is not as this format has it",
        "events_update is not as this format has it",
        "the trigger more is not one that this format has",
    ]


async def test_verify_of_a_log_that_is_being_written_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path) as log:
        run = log.create_run("ab12")
        await log.durable(log.append(run, note("x")))
        checks = 0

        async def keep_writing() -> None:
            while checks < 10:
                await log.durable(log.append(run, note("x"), [Blob.text("t", str(checks))]))

        def check() -> None:
            with LogReader(path) as reader:
                assert verify_log(reader).problems == []

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_writing)
            while checks < 10:
                await anyio.to_thread.run_sync(check)
                checks += 1


async def test_a_kill_while_the_file_is_made_leaves_one_that_can_be_used(tmp_path: Path) -> None:
    """Whatever the first statements left behind is nobody's, and is made anew."""
    path = tmp_path / "log.db"
    connection = raw(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    assert path.stat().st_size > 0
    await write(path, 1)
    with LogReader(path) as reader:
        assert len(list(reader.events(1))) == 1


async def test_closing_beside_a_reader_leaves_everything_in_the_file(tmp_path: Path) -> None:
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"
    async with LogWriter(path) as log:
        run = log.create_run("ab12")
        await log.durable(log.append(run, note("x")))
        reader = LogReader(path)
        assert len(reader.runs()) == 1
        for number in range(50):
            event = log.append(run, note(str(number)))
        await log.durable(event)
    copy.write_bytes(path.read_bytes())
    reader.connection.close()
    with LogReader(copy) as whole:
        assert len(list(whole.events(run))) == 51


async def test_a_log_has_one_lock_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "other.db").symlink_to(tmp_path / "log.db")
    async with LogWriter(tmp_path / "log.db"):
        with pytest.raises(LogInUse):
            LogWriter(tmp_path / "other.db")
        assert holder(tmp_path / "other.db") == os.getpid()


async def test_looking_at_the_lock_does_not_take_it(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path, 1)
    stop = False

    def look() -> None:
        while not stop:
            holder(path)

    opened = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, look)
        try:
            for _ in range(30):
                async with LogWriter(path):  # raises LogInUse if looking had locked it
                    opened += 1
        finally:
            stop = True  # or the looking thread, and so the test, would never end
    assert opened == 30


async def test_who_looks_for_long_is_waited_for(tmp_path: Path) -> None:
    """As on a busy machine, which leaves who looks in the middle of it."""
    path = tmp_path / "log.db"
    await write(path, 1)
    fd = os.open(lock_path(path), os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    ends = threading.Timer(0.6, os.close, [fd])
    ends.start()
    try:
        async with LogWriter(path):
            assert holder(path) == os.getpid()
    finally:
        ends.join()


async def test_of_writers_that_begin_at_once_one_writes(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path, 1)
    for _ in range(4):
        begin, found = threading.Barrier(4), list[WriterLock | None]()

        def take(begin: threading.Barrier = begin, found: list[WriterLock | None] = found) -> None:
            begin.wait()
            try:
                found.append(WriterLock(path))
            except LogInUse:
                found.append(None)

        takers = [threading.Thread(target=take) for _ in range(4)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
        locks = [lock for lock in found if lock is not None]
        assert len(locks) == 1
        locks[0].release()


async def test_commits_are_synced_and_shared(tmp_path: Path) -> None:
    connection = connect_read_write(tmp_path / "log.db")
    connection.set_authorizer(None)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    async with LogWriter(tmp_path / "log.db") as log:
        statements: list[str] = []
        log._connection.set_trace_callback(statements.append)
        run = log.create_run("ab12")
        events = [log.append(run, note(str(number))) for number in range(300)]
        await log.durable(events[-1])
        assert sum("COMMIT" in statement for statement in statements) < 30


async def test_verify_finds_a_flipped_byte_and_survives_a_cut_file(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path, 200)
    data = bytearray(path.read_bytes())
    at = data.index(b'"source":"100"')
    path.write_bytes(data[:at] + b'"source":"900"' + data[at + 14 :])
    with LogReader(path) as reader:
        assert verify_log(reader).problems
    path.write_bytes(data[: len(data) // 2])
    assert verify_file(path).problems


async def test_a_missing_blob_is_damage(tmp_path: Path) -> None:
    await write(tmp_path / "log.db")
    with LogReader(tmp_path / "log.db") as reader, pytest.raises(LogDamaged):
        reader.blob("0" * 64)


@pytest.mark.process
async def test_a_second_writer_is_refused_and_told_the_pid(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path):
        assert holder(path) == os.getpid()
        program = (
            "import sys; from pathlib import Path; from events.writer import LogWriter\n"
            "from events.errors import LogInUse\n"
            "try: LogWriter(Path(sys.argv[1]))\n"
            "except LogInUse as error: print(error.pid, error)"
        )
        done = await anyio.run_process([sys.executable, "-c", program, str(path)])
        assert done.stdout.decode().startswith(f"{os.getpid()} ")
        assert "is writing this log" in done.stdout.decode()
        with pytest.raises(LogInUse):
            LogWriter(path)
    assert holder(path) is None


@pytest.mark.process
async def test_a_killed_writer_frees_the_log_and_loses_nothing_acknowledged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.db"
    program = f"""
import anyio, os, sys
from pathlib import Path
from events.writer import LogWriter
from events.bodies import StopRequested
async def main():
    async with LogWriter(Path({str(path)!r})) as log:
        run = log.create_run("ab12")
        for number in range(100000):
            await log.durable(log.append(run, StopRequested(source=str(number))))
            sys.stdout.write(f"{{number}}\\n"); sys.stdout.flush()
anyio.run(main)
"""
    process = subprocess.Popen(  # noqa: ASYNC220 (the reading is short)
        [sys.executable, "-c", program], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged = 0
    while acknowledged < 200:
        acknowledged = int(process.stdout.readline())
    process.kill()
    acknowledged = int((process.stdout.read().split() or [acknowledged])[-1])
    process.stdout.close()
    process.wait()
    async with LogWriter(path) as log:
        await log.durable(log.append(1, note("after")))
    with LogReader(path) as reader:
        sources = [event.body.source for event in reader.events(1)]  # type: ignore[attr-defined]
        assert sources[: acknowledged + 1] == [str(n) for n in range(acknowledged + 1)]
        assert verify_log(reader).problems == []


async def test_foreign_files_are_told_apart(tmp_path: Path) -> None:
    text, other, empty = tmp_path / "a.txt", tmp_path / "other.db", tmp_path / "empty.db"
    text.write_text("hello\n" * 1000)
    connection = raw(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    empty.touch()
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(NotALog):
            LogReader(path)
        with pytest.raises(NotALog):
            LogWriter(path)
        assert path.read_bytes() == before
    with pytest.raises(NotALog):
        LogReader(empty)
    with pytest.raises(LogUnreadable, match="no such log"):
        LogReader(tmp_path / "none.db")
    with pytest.raises(LogUnreadable):
        LogReader(tmp_path)


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path)
    connection = raw(path)
    connection.execute(f"PRAGMA user_version={FORMAT + 1}")
    connection.close()
    with pytest.raises(NewerFormat, match="update engine"):
        LogReader(path)
    with pytest.raises(NewerFormat):
        LogWriter(path)


async def test_a_clean_log_opens_in_a_directory_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write anywhere; what is tested is what we do when told that we may not.
    monkeypatch.setattr("events.connect.os.access", lambda *_: False)
    folder = tmp_path / "frozen"
    folder.mkdir()
    await write(folder / "log.db")
    (folder / "log.db.lock").unlink()
    folder.chmod(0o555)
    try:
        with LogReader(folder / "log.db") as reader:
            assert len(list(reader.events(1))) == 5
            assert not (folder / "log.db-shm").exists()
    finally:
        folder.chmod(0o755)


@pytest.mark.process
async def test_a_full_disk_poisons_the_writer_and_keeps_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.db"
    program = f"""
import anyio, resource, signal
from pathlib import Path
from events.writer import LogWriter
from events.envelope import Blob
from events.errors import WriterFailed
from events.bodies import StopRequested
import fcntl
import os
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    async with LogWriter(Path({str(path)!r})) as log:
        run = log.create_run("ab12")
        await log.durable(log.append(run, StopRequested(source="kept")))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            for number in range(1000):
                blob = Blob("b", os.urandom(5000))
                await log.durable(log.append(run, StopRequested(source="x"), [blob]))
        except WriterFailed as error:
            print("refused", error)
        try:
            log.append(run, StopRequested(source="y"))
        except WriterFailed:
            print("still refused")
anyio.run(main)
"""
    done = await anyio.run_process([sys.executable, "-c", program])
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("refused")
    assert lines[1] == "still refused"
    with LogReader(path) as reader:
        assert verify_log(reader).problems == []
        assert len(list(reader.events(1))) >= 1


async def test_an_upcaster_brings_an_old_body_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplyRejected, "VER", 2)
    old = b'{"attempt": 1, "role": "plan", "call": 2, "why": "no code"}'
    with pytest.raises(BodyInvalid, match="no upcaster"):
        decode_body("ReplyRejected", 1, old)
    monkeypatch.setitem(
        upcast.UPCASTERS, ("ReplyRejected", 1), lambda raw: {"reason": raw.pop("why"), **raw}
    )
    assert decode_body("ReplyRejected", 1, old) == ReplyRejected(
        attempt=1, role="plan", call=2, reason="no code"
    )
    with pytest.raises(NewerFormat):
        decode_body("ReplyRejected", 3, old)


async def test_every_body_has_its_own_wire_name_and_kind() -> None:
    assert all(name == body.TYPE for name, body in BODIES.items())
    assert {body.KIND for body in BODIES.values()} == {"in", "decision", "meta"}
    assert b'"attempt"' in encode_body(ReplyRejected(attempt=1, role="p", call=1, reason=""))


async def test_after_closing_nothing_is_taken(tmp_path: Path) -> None:
    async with LogWriter(tmp_path / "log.db") as log:
        run = log.create_run("ab12")
    with pytest.raises(WriterFailed, match="closed"):
        log.append(run, note("x"))


async def test_what_a_body_leaves_out_is_what_it_always_was() -> None:
    """A default that is not written is part of the format, and may never change."""
    left_out = {
        (name, field.name): (
            field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        )
        for name, body in BODIES.items()
        if body.__struct_config__.omit_defaults
        for field in msgspec.structs.fields(body)
        if not field.required
    }
    replied = {
        "tool_input_sha256": None, "thoughts_sha256": None, "others_sha256": None,
        "canned": False, "reused": None, "file": None,
    }  # fmt: skip
    parsed = {
        "advice_sha256": None, "annotated_sha256": None, "source_sha256": None,
        "source_key": None, "explanation_sha256": None, "anchors": 0, "spliced": False,
        "kept_chars": 0,
    }  # fmt: skip
    finished = {
        "compile_log_sha256": None, "run_log_sha256": None, "notes": [], "usage": None,
        "resources": [], "reused": None, "same_as": None, "cached": False, "observations": None,
        "measured_at": "",
    }  # fmt: skip
    assert left_out == {
        **{("AgentReplied", name): value for name, value in replied.items()},
        **{("ReplyParsed", name): value for name, value in parsed.items()},
        **{("EvaluationFinished", name): value for name, value in finished.items()},
    }
