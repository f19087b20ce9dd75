"""Results on degenerate tasks: labelled wherever they are shown, and set apart where ranked."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import anyio
import msgspec
import pytest
from click.testing import CliRunner, Result

from engine.cli.main import cli
from engine.config import Config
from events.bodies import BaselineMeasured, BaselineRequested, EvaluationFinished, RunStarted
from events.connect import connect_read_only
from events.envelope import Blob, sha256_hex
from events.reader import LogReader
from events.writer import LogWriter
from projections.export.frames import frames_of
from projections.export.training import pairs_of
from projections.run.report import report_of
from tests.projections.rich import PRICE, TASK, _Run, correct

LABEL = "degenerate-task"
WHY = "zeros pass every trial"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``new``; ``old``, whose verdicts are of before there was such a label; ``mixed``, of whose
    two results one has it; ``sound``."""
    directory = tmp_path_factory.mktemp("degenerate")
    note = {"new": f"{LABEL}: {WHY}", "old": f"degenerate task: {WHY}"}
    label = {"new": [LABEL]}
    for name, which in (
        ("new", ["new", "new"]), ("old", ["old", "old"]), ("mixed", ["new", ""]), ("sound", [""]),
    ):  # fmt: skip
        verdicts = [
            (label.get(kind, []), [note[kind]] if kind in note else ["nothing"]) for kind in which
        ]
        anyio.run(_write, directory / f"{name}.db", verdicts)
    return directory


async def _write(path: Path, verdicts: list[tuple[list[str], list[str]]]) -> None:
    config = msgspec.to_builtins(Config(model="m"))
    async with LogWriter(path) as log:
        run = _Run(log, log.create_run(path.stem))
        task = Blob.text("task", TASK)
        run.add(RunStarted(
            title="t", config=config, task_name="t.py", task_sha256=sha256_hex(task.data),
            templates={}, seed=0, prices={"m": PRICE}, prices_dated="2026-11-21",
            versions={}, device={}, canned=False,
        ), task)  # fmt: skip
        run.add(BaselineRequested())
        run.add(BaselineMeasured(
            runtime_ms=10.0, spread=0.01, repetitions=9, timings_s={}, isolation=[],
        ))  # fmt: skip
        for attempt, (labels, notes) in enumerate(verdicts, 1):
            run.select(attempt, 0)
            run.plan(attempt, f"Plan {attempt}.")
            run.ask(attempt, "code")
            run.source(attempt, "code", f"class ModelNew: {attempt}\n")
            run.add(EvaluationFinished(
                attempt=attempt, outcome=correct(1.0 * attempt, *labels, "torch-only"),
                protocol="strict", queue_s=0.5, device="cpu", timings_s={}, isolation=[],
                notes=notes,
            ))  # fmt: skip
        await log.durable(run.last)


def look(path: Path, command: str, *rest: str) -> Result:
    result = CliRunner().invoke(cli, [command, str(path), *rest], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("name", ["new", "old"])
@pytest.mark.parametrize(
    "words",
    [("status",), ("tree",), ("show", "1"), ("report",), ("tail",), ("ls",)],
    ids=lambda words: words[0],
)
def test_a_result_is_shown_with_its_label(logs: Path, name: str, words: tuple[str, ...]) -> None:
    log = logs / f"{name}.db"
    if words[0] == "ls":
        (alone := logs / name).mkdir(exist_ok=True)
        (alone / "log.db").write_bytes(log.read_bytes())
        log = alone
    assert LABEL in look(log, *words).output
    if words[0] != "ls":
        assert LABEL not in look(logs / "sound.db", *words).output


@pytest.mark.parametrize("name", ["new", "old"])
@pytest.mark.parametrize("words", [("status",), ("tree",), ("report",)], ids=lambda w: w[0])
def test_as_json_too(logs: Path, name: str, words: tuple[str, ...]) -> None:
    assert f'"{LABEL}"' in look(logs / f"{name}.db", *words, "--json").stdout


@pytest.mark.parametrize("name", ["new", "old"])
def test_the_best_is_what_it_was_and_stderr_says_first_why_it_is_no_success(
    logs: Path, name: str
) -> None:
    found = look(logs / f"{name}.db", "best")
    assert found.stdout == "class ModelNew: 1\n"
    first, second, third = found.stderr.splitlines()
    assert first == f"DEGENERATE TASK: {WHY}"
    assert second.startswith("DEGENERATE TASK: ")
    assert f"[{LABEL}, torch-only]" in third
    assert "DEGENERATE" not in look(logs / "sound.db", "best").stderr
    assert json.loads(look(logs / f"{name}.db", "best", "--json").stdout)["best"]["labels"] == [
        LABEL, "torch-only",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "ranked", "apart"),
    [("new", [], [1, 2]), ("old", [], [1, 2]), ("mixed", [2], [1]), ("sound", [1], [])],
)
def test_the_leaderboard_sets_them_apart(
    logs: Path, name: str, ranked: list[int], apart: list[int]
) -> None:
    with LogReader(logs / f"{name}.db") as reader:
        made = report_of(reader.events(1), run="r", log=name)
    assert [place.node for place in made.leaderboard] == ranked
    assert [place.node for place in made.degenerate] == apart
    assert [place.rank for place in made.degenerate] == list(range(1, len(apart) + 1))
    said = look(logs / f"{name}.db", "report").stdout
    assert ("## Leaderboard" in said) == bool(ranked)
    assert ("## Set apart" in said) == bool(apart)
    if ranked and apart:
        assert said.index("## Leaderboard") < said.index("## Set apart")


def test_runs_side_by_side(logs: Path) -> None:
    said = look(logs / "new.db", "compare", str(logs / "old.db"), str(logs / "sound.db")).stdout
    assert said.count(f"{LABEL}, torch-only") == 2


@pytest.mark.parametrize("name", ["new", "old", "mixed", "sound"])
def test_views_frames_and_pairs_agree(logs: Path, name: str) -> None:
    path = logs / f"{name}.db"
    connection = connect_read_only(path, views=True)
    connection.row_factory = sqlite3.Row
    tables = {
        table: [row["labels"] for row in connection.execute(f"SELECT labels FROM {table}")]
        for table in ("nodes", "evaluations")
    }
    connection.close()
    with LogReader(path) as reader:
        frames = frames_of([reader])
        pairs = [p for p in pairs_of("r", reader.events(1)) if p.role == "code"]
    assert [node.labels for node in frames.nodes] == tables["nodes"]
    assert [each.labels for each in frames.evaluations] == tables["evaluations"]
    assert [",".join(pair.labels) for pair in pairs] == tables["evaluations"]
    expected = [f"{LABEL},torch-only"] * 2
    if name in ("new", "old"):
        assert tables["evaluations"] == expected
        assert frames.runs[0].best_labels == expected[0]
    elif name == "mixed":
        assert tables["evaluations"] == [expected[0], "torch-only"]
    else:
        assert tables["evaluations"] == ["torch-only"]
