"""Logs of engine 0.1: every command that reads takes them, those that would go on refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.main import cli
from events.bodies import AgentCalled, RunStarted
from events.reader import LogReader
from tests.cli.conftest import run_engine
from tests.histories.pins import HERE, OLDER

each_log = pytest.mark.parametrize("older", OLDER, ids=lambda path: path.stem)
REFUSED = (
    ("replay", ["--verify"]), ("replay", ["--json"]), ("resume", ["--attempts", "+1", "--yes"]),
    ("fork", ["--at", 3, "--yes"]), ("steer", ["--ban", 1]),
)  # fmt: skip


def shown(*args: object) -> str:
    done = CliRunner().invoke(cli, [str(arg) for arg in args], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def copied(older: Path, folder: Path) -> Path:
    return Path(shutil.copy(older, folder / older.name))


def test_there_are_a_few_of_each_kind() -> None:
    types, versions, formats = set(), set(), set()
    for path in OLDER:
        with LogReader(path) as reader:
            body = next(reader.events(1)).body
            assert isinstance(body, RunStarted)
            assert body.format == "0.1"
            connection = reader.connection
            versions |= set(connection.execute("SELECT ver FROM events WHERE type = 'RunStarted'"))
            types |= {type_ for (type_,) in connection.execute("SELECT type FROM events")}
            formats |= {"blob_data" in str(connection.execute("SELECT name FROM sqlite_master")
                        .fetchall())}  # fmt: skip
    assert versions == {(1,), (2,)}
    assert formats == {True, False}
    assert types >= {"RunForked", "RunResumed", "RunPaused", "HintGiven", "AgentFailed"}


@each_log
def test_it_is_shown(older: Path) -> None:
    run = f"{older}#1"
    for command in ("status", "tree", "report", "tail"):
        assert shown(command, run)
        assert json.loads(shown(command, run, "--json").splitlines()[0])
    with LogReader(older) as reader:
        called = next(b for b in reader.bodies(1, [AgentCalled]) if isinstance(b, AgentCalled))
    assert f"node {called.attempt}," in shown("show", run, called.attempt)
    assert shown("tree", run, "--at", 15)
    assert "class Model" in shown("prompt", run, called.attempt, called.role)
    assert older.name in shown("ls", older.parent)
    query = "SELECT role, state FROM calls WHERE run_id = 1"
    assert json.loads(shown("sql", older, query, "--json").splitlines()[0])


@each_log
def test_it_is_verified_compared_and_simulated(older: Path) -> None:
    run = f"{older}#1"
    assert "intact" in shown("verify", older)
    assert "| format " not in shown("diff", run, run)
    for command in ("compare", "diff"):
        assert "| format " in shown(command, run, HERE / "stark.db")
    assert "coverage" in shown("simulate", run, "--seeds", 2)


@each_log
def test_it_is_exported(older: Path, tmp_path: Path) -> None:
    log = copied(older, tmp_path)
    shown("export", log, "--format", "jsonl", "-o", tmp_path / "tables")
    rows = (tmp_path / "tables" / "nodes.jsonl").read_text().splitlines()
    assert len(rows) > 3
    shown("export", log, "--format", "sft", "--role", "plan", "--canned", "--outcome", "any",
          "-o", tmp_path / "pairs.jsonl")  # fmt: skip
    shown("export", log, "--redact", "-o", tmp_path / "redacted.db")
    shown("recover", log, "-o", tmp_path / "recovered.db")
    for copy in ("redacted.db", "recovered.db"):
        assert shown("tree", f"{tmp_path / copy}#1") == shown("tree", f"{log}#1")
        shown("verify", tmp_path / copy)


def test_its_best_kernel_is_printed() -> None:
    assert "class ModelNew" in shown("best", HERE / "0.1" / "stark_softmax_h200.db")


@pytest.mark.process
@each_log
@pytest.mark.parametrize(("command", "options"), REFUSED)
def test_it_is_not_gone_on_with(
    older: Path, tmp_path: Path, command: str, options: list[object]
) -> None:
    log = copied(older, tmp_path)
    done = run_engine(command, f"{log}#1", *options)
    assert done.returncode == 2, done.stderr
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert done.stderr.startswith(f"engine: {log}: written by engine 0.1.0")
    assert "can be read, reported and exported, but not replayed, resumed" in done.stderr
    assert "use engine 0.1.x for that" in done.stderr
    assert log.read_bytes() == older.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [log.name], "no lock, no -wal"
