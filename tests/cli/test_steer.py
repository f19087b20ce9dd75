"""``engine steer`` on a run that nobody works on, and what shows it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.exits import Failure
from engine.cli.main import cli
from events.errors import LogError
from events.lock import holder
from events.reader import LogReader
from tests.cli.conftest import SEARCH, run_engine, start_engine

STEERED = Path(__file__).parents[1] / "histories" / "steered.db"


def engine(*args: object) -> str:
    """What the command prints."""
    done = CliRunner().invoke(cli, [str(arg) for arg in args])
    if isinstance(done.exception, Failure):
        return f"engine: {done.exception}"
    assert (done.exit_code, done.exception) == (0, None)
    return done.stdout


def test_a_run_at_rest_is_told_and_shows_it(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    shutil.copy(STEERED, log)
    done = engine("steer", log, "--hint", "Try\x1b[31m tiles.", "--ban", 2, "--unban", 0)
    assert [line.partition(": ")[2] for line in done.splitlines()] == [
        "the user gives hint 2", "the user bans node 2", "the user lifts the ban of node 0",
    ]  # fmt: skip
    status = engine("status", log)
    assert "hint 1      Fold the two steps.\nhint 2      Try�[31m tiles.\n" in status
    assert "banned     2\npinned     1\n" in status
    told = json.loads(engine("status", log, "--json"))["steered"]
    assert (told["banned"], told["pinned"], list(told["hints"])) == ([2], 1, ["1", "2"])
    tree = engine("tree", log)
    assert "(banned)" in next(line for line in tree.splitlines() if " 2 " in line)
    assert "agree" in engine("replay", log, "--verify")
    for args, said in (
        (["--ban", 77], "no node 77"),
        (["--stop-after-attempt"], "nothing is going on that could stop"),
        ([], "nothing to tell"),
    ):
        assert said in engine("steer", log, *args)


@pytest.mark.process
def test_a_run_that_goes_on_ends_softly(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    process = start_engine(*SEARCH, "--attempts", 50, "--log", log, stderr=subprocess.PIPE)
    try:
        while process.poll() is None and not (holder(log) and _calls(log)):
            time.sleep(0.02)
        told = run_engine("steer", log, "--stop-after-attempt", "--hint", "Less.")
        assert told.returncode == 0, told.stderr
        _, said = process.communicate(timeout=120)
        assert process.returncode == 130, said
        assert f"engine resume {log}" in said
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
    status = json.loads(engine("status", log, "--json"))
    assert (status["status"], status["reason"]) == ("interrupted", "engine steer")
    assert status["attempts"] >= 1
    assert not log.with_name("log.db.sock").exists()


def _calls(log: Path) -> int:
    try:
        with LogReader(log) as reader:
            return sum(event.type == "AgentCalled" for event in reader.since(0))
    except LogError:  # its holder has not made it yet
        return 0
