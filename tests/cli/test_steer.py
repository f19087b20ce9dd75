"""``engine steer`` on a run that nobody works on, and what shows it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

from events.lock import holder
from events.reader import LogReader
from tests.cli.conftest import SEARCH, run_engine, start_engine


def test_a_run_at_rest_is_told_and_shows_it(finished: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    shutil.copy(finished, log)
    done = run_engine("steer", log, "--hint", "Try\x1b[31m tiles.", "--ban", 2, "--pin", 1)
    assert done.returncode == 0, done.stderr
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()] == [
        "the user gives hint 1", "the user bans node 2", "the user pins node 1",
    ]  # fmt: skip
    status = run_engine("status", log).stdout
    assert "hint 1      Try�[31m tiles.\n" in status
    assert "banned     2\npinned     1\n" in status
    told = json.loads(run_engine("status", log, "--json").stdout)["steered"]
    assert (told["banned"], told["pinned"], list(told["hints"])) == ([2], 1, ["1"])
    tree = run_engine("tree", log).stdout
    assert "(banned)" in next(line for line in tree.splitlines() if " 2 " in line)
    assert run_engine("verify", log).returncode == run_engine("replay", log, "--verify").returncode
    for args, said in (
        (["--ban", 77], "no node 77"),
        (["--stop-after-attempt"], "nothing is going on that could stop"),
        ([], "nothing to tell"),
    ):
        refused = run_engine("steer", log, *args)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


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
    status = json.loads(run_engine("status", log, "--json").stdout)
    assert (status["status"], status["reason"]) == ("interrupted", "engine steer")
    assert status["attempts"] >= 1
    assert not log.with_name("log.db.sock").exists()


def _calls(log: Path) -> int:
    with LogReader(log) as reader:
        return sum(event.type == "AgentCalled" for event in reader.since(0))
