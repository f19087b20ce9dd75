"""What eval, baseline and doctor show while they work, on real terminals and elsewhere."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.cli.evaluate.baseline import kinds_of
from engine.cli.evaluate.evaluate import InOrder
from engine.cli.views.waiting import Waiting
from tests.cli.conftest import SMALL, engine_command, environment, run_engine

JUDGED = ("eval", SMALL / "task.py", SMALL / "broken.py", SMALL / "wrong.py", SMALL / "fused.py")


class OnTerminal(NamedTuple):
    code: int
    stdout: str
    terminal: str
    """All that stderr, a terminal, was sent."""


def on_terminal(*args: object, term: str) -> OnTerminal:
    """Run the command line with a pseudo-terminal as stderr."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # EIO: how Linux says that the other end is closed
                return
            if not data:
                return
            seen.append(data)

    process = subprocess.Popen(
        engine_command(*args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
        text=True, env=environment(TERM=term),
    )  # fmt: skip
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    stdout, _ = process.communicate(timeout=300)
    reader.join()
    os.close(ours)
    return OnTerminal(process.returncode, stdout, b"".join(seen).decode(errors="replace"))


def order(stdout: str) -> list[str]:
    """The candidates, as their lines come before the table."""
    lines = stdout.partition("\n\n")[0].splitlines()
    return [Path(line.partition(": ")[0]).stem for line in lines]


def table(stdout: str) -> list[list[str]]:
    lines = stdout.partition("\n\n")[2].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def check_results(stdout: str) -> None:
    assert order(stdout) == ["broken", "wrong", "fused"]
    names, rule, *rows = table(stdout)
    assert names == ["candidate", "outcome", "speedup", "runtime", "labels"]
    assert set("".join(rule)) <= set("-: ")
    assert [Path(row[0]).stem for row in rows] == ["fused", "broken", "wrong"]
    assert [row[1] for row in rows] == ["correct", "compile failed", "wrong result"]
    assert rows[0][2].endswith("×")
    assert rows[0][3].endswith(" ms")
    assert "torch-only" in rows[0][4]


@pytest.mark.process
def test_a_dumb_terminal_gets_plain_lines() -> None:
    done = on_terminal(*JUDGED, "--device", "cpu", term="dumb")
    assert done.code == 0, done.terminal
    check_results(done.stdout)
    lines = done.terminal.splitlines()
    assert "[1/3] broken.py: being judged" in lines
    assert "[3/3] fused.py: on the device, or waiting for it" in lines
    assert "\x1b" not in done.terminal


@pytest.mark.process
def test_a_terminal_gets_a_panel_that_goes_away() -> None:
    done = on_terminal(*JUDGED, "--device", "cpu", term="xterm")
    assert done.code == 0, done.terminal
    check_results(done.stdout)
    assert "fused.py: on the device, or waiting for it" in done.terminal
    assert "/3] done, " in done.terminal
    assert "\x1b[" in done.terminal
    assert "\x1b" not in done.stdout


@pytest.mark.process
def test_elsewhere_nothing_is_shown_and_json_is_in_the_order_given() -> None:
    done = run_engine(*JUDGED, "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [Path(row["candidate"]).stem for row in rows] == ["broken", "wrong", "fused"]
    assert "being judged" not in done.stderr
    assert "done, " not in done.stderr
    fused = rows[2]
    assert fused["error"] <= fused["error_bound"]
    assert fused["trial"] >= 1


@pytest.mark.process
def test_one_candidate_has_no_table() -> None:
    done = run_engine("eval", SMALL / "task.py", SMALL / "fused.py", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert "relative error" in done.stderr
    assert "allowed" in done.stderr


@pytest.mark.process
def test_baselines_come_in_the_order_given() -> None:
    assert kinds_of("compile,eager,compile") == ("compile", "eager")
    done = on_terminal(
        "baseline", SMALL / "task.py", "--kinds", "eager", "--device", "cpu", "--json", term="dumb"
    )
    assert done.code == 0, done.terminal
    assert [json.loads(line)["baseline"] for line in done.stdout.splitlines()] == ["eager"]
    assert "[1/1] eager: being measured" in done.terminal


@pytest.mark.process
def test_doctor_says_what_it_looks_at() -> None:
    done = on_terminal("doctor", "--device", "cpu", "--json", term="dumb")
    for line in (
        "[1/3] the machine: looking at compilers, tools and folders",
        "[2/3] cpu: looking at device cpu",
        "[3/3] isolation: looking at isolation",
    ):
        assert line in done.terminal
    assert all(json.loads(line)["name"] for line in done.stdout.splitlines())


@pytest.mark.parametrize("came", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_results_are_shown_in_order_however_they_come(
    came: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = InOrder(Waiting(["a", "b", "c"]))
    for number in came:
        shown.add(number, partial(print, number))
    assert capsys.readouterr().out == "0\n1\n2\n"


def test_what_is_behind_one_that_failed_is_shown_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = InOrder(Waiting(["a", "b", "c"]))
    for number in (2, 1):
        shown.add(number, partial(print, number))
    assert capsys.readouterr().out == ""
    shown.rest()
    assert capsys.readouterr().out == "1\n2\n"
