"""Texts packed against earlier ones: the same bytes come back, and what damage takes along."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.blobs.packing import Packer, unpacked
from events.bodies import StopRequested
from events.envelope import Blob
from events.errors import OlderFormat
from events.reader import LogReader
from events.recovery.recover import recover_log
from events.redact import redact
from events.text_index import TextIndex
from events.verify import verify_file
from events.writer import LogWriter
from tests.histories.pins import HERE

pytestmark = pytest.mark.anyio

FORMAT_1 = HERE / "0.1" / "stark_softmax_h200.db"

KERNEL = "".join(f"  float acc_{n} = load(row + {n * 37}) * scale[{n}];\n" for n in range(60))
KERNELS = [KERNEL.replace("acc_7 ", f"sum_{n} ") for n in range(12)]


def _edited(lines: list[bytes], edits: list[tuple[int, bytes]]) -> bytes:
    for at, line in edits:
        lines = [*lines[: at % (len(lines) + 1)], line, *lines[at % (len(lines) + 1) :]]
    return b"\n".join(lines)


texts = st.lists(
    st.one_of(
        st.binary(max_size=300),
        st.builds(
            _edited,
            st.just([line.encode() for line in KERNEL.splitlines()]),
            st.lists(st.tuples(st.integers(0, 99), st.binary(max_size=40)), max_size=5),
        ),
        st.builds(lambda piece, times: piece * times, st.binary(min_size=1), st.integers(1, 9000)),
    ),
    max_size=12,
)


@given(texts)
def test_what_was_packed_is_unpacked_from_two_texts_at_most(contents: list[bytes]) -> None:
    packer, whole = Packer(), dict[int, bytes]()
    for number, content in enumerate(contents):
        packed = packer.pack(content)
        base = None if packed.base is None else whole[packed.base]
        assert unpacked(packed.codec, packed.data, base) == content
        assert len(packed.data) <= len(content)
        if packed.base is None:
            packer.stored(number, content)
            whole[number] = content


def test_a_text_is_compared_with_the_one_it_is_like() -> None:
    packer = Packer()
    others = [bytes(range(n, 128 + n)) * 4 + b"\n" for n in range(8)]
    for number, content in enumerate([*others, KERNEL.encode(), *others[:2]]):
        packer.stored(number, content)
    for like in (KERNELS[3], repr(KERNELS[4])):  # as it is, and inside a tool's input
        packed = packer.pack(like.encode())
        assert packed.base == 8
        assert len(packed.data) < len(like) // 10


async def _written(path: Path) -> None:
    """A run of events with a text each, and one of another run that repeats two."""
    async with LogWriter(path) as log:
        first, second = log.create_run("aa11"), log.create_run("bb22")
        for run in (first, second):
            log.append(run, StopRequested(source="none"))
        for number, kernel in enumerate(KERNELS):
            log.append(first, StopRequested(source=str(number)), [Blob.text("k", kernel)])
        again = [Blob.text("k", KERNELS[0]), Blob.text("l", KERNELS[5])]
        await log.durable(log.append(second, StopRequested(source="again"), again))


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    await _written(tmp_path / "log.db")
    return tmp_path / "log.db"


def _sql(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute(query).fetchall()
    connection.close()
    return found


async def test_a_log_stores_one_text_and_differences(log: Path) -> None:
    assert _sql(log, "SELECT id FROM blobs WHERE base IS NULL") == [(1,)]
    assert _sql(log, "SELECT DISTINCT base FROM blobs") == [(None,), (1,)]
    ((size, stored),) = _sql(log, "SELECT sum(size), sum(length(data)) FROM blobs WHERE base")
    assert stored * 10 < size  # type: ignore[operator]
    with LogReader(log) as reader:
        assert [reader.text(e.blobs[0]) for e in reader.events(1, after=1)] == KERNELS
        with TextIndex(reader, log.with_name("words.fts")) as index:
            assert {hit.run_seq for hit in index.find("sum_11")} == {13}


async def test_a_writer_that_comes_later_begins_with_a_whole_text(log: Path) -> None:
    async with LogWriter(log) as writer:
        new = Blob.text("k", KERNEL + "more\n")
        await writer.durable(writer.append(1, StopRequested(source="x"), [new]))
    assert _sql(log, "SELECT id FROM blobs WHERE base IS NULL") == [(1,), (13,)]
    assert verify_file(log).problems == []


def _damaged(path: Path, number: int) -> None:
    """Turn over a bit in what the blob's row holds."""
    ((data,),) = _sql(path, f"SELECT data FROM blobs WHERE id = {number}")
    assert isinstance(data, bytes)
    content = bytearray(path.read_bytes())
    content[content.index(data) + len(data) // 2] ^= 4
    path.write_bytes(content)


async def test_a_damaged_base_is_named_with_all_that_need_it(log: Path, tmp_path: Path) -> None:
    names = [str(sha)[:12] for (sha,) in _sql(log, "SELECT sha256 FROM blobs ORDER BY id")]
    _damaged(log, 1)
    base, *others = [problem.what for problem in verify_file(log).problems]
    assert base.startswith(f"blob {names[0]}")
    assert len(others) == 11
    for name, what in zip(names[1:], others, strict=True):
        assert what.startswith(f"blob {name} is packed against another: blob {names[0]}")
    one, two = _recovered(log, tmp_path / "new.db", saved=[1, 1])
    assert "event 2 of the run (StopRequested) has lost blobs: k" in one
    assert "event 2 of the run (StopRequested) has lost blobs: k, l" in two


async def test_a_damaged_difference_takes_nothing_along(log: Path, tmp_path: Path) -> None:
    _damaged(log, 9)
    assert len(verify_file(log).problems) == 1
    one, two = _recovered(log, tmp_path / "new.db", saved=[9, 2])
    assert "event 10 of the run (StopRequested) has lost blobs: k" in one
    assert two == ""


def _recovered(log: Path, new: Path, saved: list[int]) -> list[str]:
    recovery = recover_log(log, new)
    assert [run.saved for run in recovery.runs] == saved
    assert verify_file(new).problems == []
    return [run.why for run in recovery.runs]


@pytest.mark.parametrize("made", [redact, lambda reader, new: recover_log(reader.path, new)])
def test_a_log_of_format_1_is_copied_into_the_new_one(
    tmp_path: Path, made: Callable[[LogReader, Path], object]
) -> None:
    new = tmp_path / "new.db"
    with LogReader(FORMAT_1) as reader:
        made(reader, new)
    check, copied = verify_file(FORMAT_1), verify_file(new)
    assert check.problems == copied.problems == []
    assert copied.head == check.head
    assert [_sql(log, "PRAGMA user_version") for log in (FORMAT_1, new)] == [[(1,)], [(2,)]]
    for query in (
        "SELECT * FROM event_blobs ORDER BY seq, pos",
        "SELECT sha256, size FROM blobs ORDER BY sha256",
        "SELECT e.type, b.size FROM events AS e JOIN event_blobs USING (seq) JOIN blobs AS b"
        " USING (sha256) ORDER BY seq, pos",
    ):  # fmt: skip
        assert _sql(new, query) == _sql(FORMAT_1, query)


def test_a_log_of_format_1_is_not_written_on(tmp_path: Path) -> None:
    old = Path(shutil.copy(FORMAT_1, tmp_path / "old.db"))
    with pytest.raises(OlderFormat, match=r"engine 0\.1 wrote and this one only reads"):
        LogWriter(old)
    assert old.read_bytes() == FORMAT_1.read_bytes()
