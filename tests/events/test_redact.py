"""A redacted log: no texts, the same chains, the same search."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.cli.main import cli
from events.errors import BlobRedacted, LogDamaged, LogUnreadable
from events.reader import LogReader
from events.redact import redact
from events.verify import verify_log

HISTORY = Path(__file__).parents[1] / "histories" / "stark_workers.db"


def engine(*args: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, args)))


@pytest.fixture(scope="module")
def redacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("redacted") / "new.db"
    assert engine("export", HISTORY, "--redact", "-o", path).exit_code == 0
    return path


def test_the_chain_holds_and_the_texts_are_gone(redacted: Path) -> None:
    with LogReader(HISTORY) as reader:
        original, events = verify_log(reader), list(reader.events(1))
    with LogReader(redacted) as reader:
        check = verify_log(reader)
        assert list(reader.events(1)) == events
        with pytest.raises(BlobRedacted):
            reader.text(events[0].blobs[0])
    assert (check.head, check.problems) == (original.head, [])
    assert (check.redacted, original.redacted) == (original.blobs, 0)
    assert [path.name for path in redacted.parent.iterdir()] == ["new.db"]
    with sqlite3.connect(redacted) as plain:
        assert plain.execute("SELECT sum(length(data)) FROM blobs").fetchone() == (0,)
    plain.close()


def test_it_verifies_replays_and_is_analysed(redacted: Path) -> None:
    with LogReader(HISTORY) as reader:
        blobs = verify_log(reader).blobs
    assert f"{blobs} blobs ({blobs} redacted): intact" in engine("verify", redacted).stdout
    replayed = engine("replay", redacted, "--verify")
    assert (replayed.exit_code, "agree" in replayed.stdout) == (0, True)
    assert "prompts were not compared" in replayed.stderr
    assert engine("report", redacted, "--json").exit_code == 0
    assert engine("tree", redacted).stdout == engine("tree", HISTORY).stdout
    shown = engine("show", redacted, 1)
    assert "is redacted" in str(shown.exception)


def test_nothing_is_overwritten_and_damage_is_told(redacted: Path, tmp_path: Path) -> None:
    with LogReader(HISTORY) as reader, pytest.raises(LogUnreadable, match="exists already"):
        redact(reader, redacted)
    torn = tmp_path / "torn.db"
    torn.write_bytes(HISTORY.read_bytes())
    with sqlite3.connect(torn) as connection:
        connection.execute("DROP TRIGGER events_delete")
        connection.execute("DELETE FROM events WHERE seq = 8")
    connection.close()
    with LogReader(torn) as reader, pytest.raises(LogDamaged, match="can't be copied"):
        redact(reader, tmp_path / "new.db")
    assert [path.name for path in tmp_path.iterdir()] == ["torn.db"]
