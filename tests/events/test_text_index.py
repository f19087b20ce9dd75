"""Full-text search: what it finds, and that it believes the log alone."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.cli.main import cli
from events.bodies import StopRequested
from events.envelope import Blob
from events.reader import LogReader
from events.redact import redact
from events.text_index import Hit, TextIndex
from events.writer import LogWriter

HISTORY = Path(__file__).parents[1] / "histories" / "0.1" / "stark_softmax_h200.db"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    path.write_bytes(HISTORY.read_bytes())
    return path


def find(log: Path, words: str, **only: str) -> list[Hit]:
    with LogReader(log) as reader, TextIndex(reader) as index:
        return list(index.find(words, **only))  # type: ignore[arg-type]


def search(*args: object) -> Result:
    return CliRunner().invoke(cli, ["search", *map(str, args)])


def test_words_phrases_and_prefixes(log: Path) -> None:
    hits = find(log, "ModelNew", kind="source")
    assert hits
    assert {hit.kind for hit in hits} == {"source"}
    assert all("ModelNew" in hit.excerpt for hit in hits)
    phrase = find(log, '"expected 0"', kind="log")
    assert phrase
    assert {(hit.type, hit.name) for hit in phrase} == {("EvaluationFinished", "run_log")}
    assert len(find(log, "__sync*")) >= len(find(log, "__syncthreads"))
    assert len(find(log, "ModelNew")) >= len(find(log, "ModelNew relative"))
    for nothing in ("zebra", "", '"', "AND OR NOT zebra (", "a:b^c*"):
        assert find(log, nothing) == []


def test_a_text_that_repeats_is_one_hit(log: Path) -> None:
    systems = [hit for hit in find(log, "kernel", kind="prompt") if hit.name == "system"]
    assert [hit.events for hit in systems] == [27]


@pytest.mark.anyio
async def test_it_reads_on_and_notices_another_log(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    for round_, word in enumerate(("ostrich", "penguin"), 1):
        async with LogWriter(path) as log:
            run = log.create_run(f"r{round_}")
            text = Blob.text("reply", f"the {word} can't fly")
            await log.durable(log.append(run, StopRequested(source=word), [text]))
        assert [hit.run_id for hit in find(path, word)] == [round_]
    path.unlink()
    async with LogWriter(path) as log:
        run = log.create_run("other")
        text = Blob.text("reply", "the kiwi can't fly")
        await log.durable(log.append(run, StopRequested(source="kiwi"), [text]))
    assert find(path, "ostrich") == []
    assert len(find(path, "kiwi")) == 1


@pytest.mark.parametrize("damage", ["garbage", "other version", "lies", "empty"])
def test_a_side_file_that_is_wrong_does_no_harm(log: Path, damage: str) -> None:
    expected = find(log, "ModelNew")
    side = log.with_name("log.db.fts")
    if damage == "garbage":
        side.write_bytes(b"x" * 9000)
    elif damage == "empty":
        side.write_bytes(b"")
    else:
        with sqlite3.connect(side) as connection:
            if damage == "lies":
                connection.execute("UPDATE places SET seq = 2")
            else:
                connection.execute("PRAGMA user_version = 99")
        connection.close()
    assert find(log, "ModelNew") == ([] if damage == "lies" else expected)
    side.unlink()
    assert find(log, "ModelNew") == expected


def test_a_redacted_log_gives_nothing_away(log: Path, tmp_path: Path) -> None:
    assert find(log, "ModelNew")
    with LogReader(log) as reader:
        redact(reader, tmp_path / "new.db")
    assert find(tmp_path / "new.db", "ModelNew") == []
    (tmp_path / "new.db").replace(log)  # under the old index, which knows the words
    assert find(log, "ModelNew") == []


def test_the_command(log: Path) -> None:
    shown = search(log, "ModelNew", "--in", "source", "--limit", 2)
    assert len(shown.stdout.splitlines()) == 4
    assert "--limit shows more" in shown.stderr
    (line,) = search(log, '"class ModelNew"', "--json", "--limit", 1).stdout.splitlines()
    assert "ModelNew" in json.loads(line)["excerpt"]
    assert "no text" in search(log, "zebra").stderr
    assert search(f"{log}#1", "ModelNew").stdout


def test_beside_a_log_that_can_not_be_written_to_it_goes_to_the_cache(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("events.text_index.os.access", lambda *_: False)
    assert find(log, "ModelNew")
    assert len(list((tmp_path / "cache" / "stark-engine").iterdir())) == 1
    assert not log.with_name("log.db.fts").exists()
