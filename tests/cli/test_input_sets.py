"""Input sets of a verdict wherever it is looked at, from a logged verdict alone; and task files."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from engine.cli.exits import Failure
from engine.cli.main import cli
from engine.cli.source_files import read_task
from events.outcomes import SetScore
from events.reader import LogReader
from events.writer import LogWriter
from tests.cli.test_two_times import verdict
from tests.engine.world import World, config_of

TASK = """
class Model: ...


def get_init_inputs():
    return []


def get_input_sets():
    return {"short": lambda: []}
"""


def _score(name: str, speedup: float, *, hidden: bool = False) -> SetScore:
    return SetScore(
        name=name, hidden=hidden, speedup=speedup, speedup_low=speedup / 1.1,
        speedup_high=speedup * 1.1, candidate_ms=1 / speedup, baseline_ms=1.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("input-sets") / "log.db"
    sets = [_score("short", 8.0), _score("secret", 2.0, hidden=True)]
    outcome = msgspec.structs.replace(verdict(1, on_cpu=True), sets=sets)
    world = World(config_of(attempts=1, epsilon=0), 1, failing=0.0)
    world._outcome = lambda: outcome  # type: ignore[method-assign]
    world.run()

    async def write() -> None:
        async with LogWriter(path) as writer:
            run = writer.create_run("sets")
            for body in world.bodies:
                seq = writer.append(run, body, [])
            await writer.durable(seq)

    anyio.run(write)
    return path


@pytest.fixture(autouse=True)
def texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """This log has none."""
    monkeypatch.setattr(LogReader, "text", lambda *_: "source\n")


def shown(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_worst_set_stands_beside_the_speedup(log: Path) -> None:
    for command in ("tree", "status", "best"):
        told = shown(command, log)
        assert "worst 2.00× on secret" in told, command
    assert "| 2.00× on secret " in shown("report", log)


def test_show_has_a_line_for_each_set(log: Path) -> None:
    told = shown("show", log, "1")
    assert "on short 8.00× (7.27–8.80): 0.125 ms a call against 1 ms\n" in told
    assert "on secret 2.00× (1.82–2.20): 0.5 ms a call against 1 ms, hidden\n" in told


def test_planners_are_told_of_a_hidden_set_by_its_speedup_alone(log: Path) -> None:
    told = shown("show", log, "1")
    assert "by input set: short 8, a hidden one 2" in told


def test_tables_have_the_sets(log: Path) -> None:
    query = "SELECT value ->> 'name' AS name FROM evaluations, json_each(sets)"
    rows = shown("sql", log, query, "--json").splitlines()
    assert [json.loads(row)["name"] for row in rows] == ["short", "secret"]


def test_a_task_of_input_sets_needs_no_other_inputs(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text(TASK)
    assert read_task(path) == TASK
    path.write_text(TASK.replace("{", "other or {"))
    with pytest.raises(Failure, match=r"get_input_sets\(\) has to end in one return of a dict"):
        read_task(path)
    path.write_text(TASK.replace("\ndef get_input_sets", "\nif True:\n  def get_input_sets"))
    with pytest.raises(Failure, match="has to be a function of the file itself"):
        read_task(path)
