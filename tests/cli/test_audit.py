"""What the task's audit found is said wherever one looks at the run or at its root."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from engine.cli.main import cli
from engine.config import Config
from events.bodies import BaselineMeasured, RunStarted
from events.envelope import Blob, sha256_hex
from events.writer import LogWriter
from tests.projections.rich import TASK

FOUND = ["zeros pass every trial", "the input itself passes every trial"]
LOOKS = [("status",), ("tree",), ("show", "0"), ("report",)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``found``, ``sound``, and ``old``, of before there were audits."""
    directory = tmp_path_factory.mktemp("tasks")
    for name, audit, conditions in (
        ("found", FOUND, {"device": "cpu"}), ("sound", [], {"device": "cpu"}), ("old", [], {}),
    ):  # fmt: skip
        measured = BaselineMeasured(
            runtime_ms=10.0, spread=0.01, repetitions=9, timings_s={}, isolation=[],
            audit=audit, conditions=conditions,
        )  # fmt: skip
        anyio.run(_write, directory / name, measured)
    return directory


async def _write(path: Path, measured: BaselineMeasured) -> None:
    async with LogWriter(path) as log:
        run = log.create_run(path.name)
        config = msgspec.to_builtins(Config(model="m"))
        task = Blob.text("task", TASK)
        started = RunStarted(
            title="t", config=config, task_name="t.py", task_sha256=sha256_hex(task.data),
            templates={}, seed=0, prices={}, prices_dated="", versions={}, device={},
            canned=False,
        )  # fmt: skip
        log.append(run, started, [task])
        await log.durable(log.append(run, measured, []))


def look(path: Path, command: str, *rest: str) -> str:
    result = CliRunner().invoke(cli, [command, str(path), *rest], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("words", LOOKS, ids=lambda words: words[0])
def test_each_finding_is_said_once(logs: Path, words: tuple[str, ...]) -> None:
    said = look(logs / "found", *words)
    assert [said.count(found) for found in FOUND] == [1, 1]
    assert "audit" in said
    for name in ("sound", "old") if words != ("report",) else ("old",):
        assert "audit" not in look(logs / name, *words)


def test_a_report_says_of_a_sound_task_that_nothing_was_found(logs: Path) -> None:
    assert "the task, audited: nothing found" in look(logs / "sound", "report")


def test_as_json(logs: Path) -> None:
    found = [
        json.loads(look(logs / n, "status", "--json"))["audit"] for n in ("found", "sound", "old")
    ]
    assert found == [FOUND, [], None]
