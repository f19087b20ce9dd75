"""Every command that the documentation shows is one that the command line takes, and runs.

What a page shows is run as a user would, in order, beside the log of ``make demo``. What is not
run is listed here with the reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from engine.cli.main import cli
from tests.docs.demo_log import fork_demo_log, write_demo_log
from tests.docs.pages import PAGES, ROOT, Command, commands_of, engine_calls

NOT_RUN = {
    r"make ": "it runs these tests, or what .ci/run does",
    r"pip install |hf download ": "it downloads",
    r"export ANTHROPIC_API_KEY=": "it needs a key",
    r"engine run model.py --device cuda:0": "it needs a key and a GPU",
    r"engine run model.py --(set|model) ": "it needs a key, or a model's server",
    r"engine best runs/model-": "the log of a run that needs a key",
    r"engine eval KernelBench/": "it needs a model of Hugging Face",
    r"engine trace .*--otlp": "it needs a collector",
    r"engine tail .* -f": "it does not end",
    r"engine resume .*(--wait 600|/mnt/answers)": "it waits for a person",
    r"for log in runs": "it needs searches that wait for replies",
    r"engine steer .*--stop-after-attempt": "it needs a search that is under way",
    r"datasette ": "not among the dependencies",
    r"echo \$\?": "EXITS says it",
}
LONG = (r"engine doctor", r"engine baseline ", r"engine (run|resume|status) softmax")
"""Real verdicts, or a look at the whole machine: a minute and more."""
EXITS = {
    r"engine replay edited.db --verify": 5,
    r"engine tree runs/demo.db --at 900": 2,
    r"engine replay tests/histories/0.1": 2,
    r"engine (verify|recover) LOG": 5,
    r"engine (run|resume) softmax": 75,
}
"""Of commands that are shown because they do not end with 0."""
DONE_OTHERWISE: dict[str, Callable[[Path], None]] = {
    r"engine fork runs/demo.db --at 65": lambda log: fork_demo_log(
        log, 65, **{"search.epsilon": 0.9}
    ),
    r"engine fork 'runs/demo.db#1' --at 33": lambda log: fork_demo_log(log, 33),
}
"""A fork is measured on the device of its run, and that of this log is made up: tests/cli forks."""

ALL = [command for page in PAGES for command in commands_of(page)]


def looked_up(table: dict[str, Any], command: Command) -> Any:
    return next((told for form, told in table.items() if matches(form, command)), None)


def matches(form: str, command: Command) -> bool:
    return re.match(form, " ".join(command.text.split())) is not None


def is_long(command: Command) -> bool:
    return any(matches(form, command) for form in LONG)


@pytest.mark.parametrize("command", ALL, ids=lambda command: f"{command.page}:{command.line}")
def test_the_command_line_takes_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of commands, options and their values: parsed, not run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "LOG").touch()
    for name, *words in engine_calls(command):
        top = click.Context(cli)
        found = cli.get_command(top, name)
        assert found is not None, f"{command.where}: there is no command {name!r}"
        found.make_context(name, words, parent=top)


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in ALL:
        if command.text.startswith("make "):
            asked = command.text.partition("#")[0].split()[1:]
            assert set(asked) <= targets, command.where


@pytest.mark.parametrize("form", [*NOT_RUN, *LONG, *EXITS, *DONE_OTHERWISE])
def test_what_is_listed_here_is_on_a_page(form: str) -> None:
    assert any(matches(form, command) for command in ALL)


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """Where a user works: a checkout's examples and tests, a task, and the demo's log."""
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("model.py", "softmax.py"):
        (tmp_path / name).symlink_to(ROOT / "examples" / "softmax.py")
    (tmp_path / "runs").mkdir()
    (tmp_path / "box").mkdir()
    write_demo_log(tmp_path / "runs" / "demo.db")
    (tmp_path / "runs" / "a.db").write_bytes((tmp_path / "runs" / "demo.db").read_bytes())
    damaged = bytearray((tmp_path / "runs" / "demo.db").read_bytes())
    late = len(damaged) * 3 // 4  # the first event stays, and so something is saved
    damaged[late : late + 4096] = bytes(4096)
    (tmp_path / "LOG").write_bytes(damaged)
    return tmp_path


def run(command: Command, directory: Path) -> None:
    if done_otherwise := looked_up(DONE_OTHERWISE, command):
        done_otherwise(directory / "runs" / "demo.db")
        return
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ENGINE_", "ANTHROPIC_"))}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    ours = {"PATH": path, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(directory / "cache")}
    done = subprocess.run(
        ["bash", "-c", command.text], cwd=directory, env={**kept, **ours},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    told = f"{command.where}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.returncode == (looked_up(EXITS, command) or 0), told


def pages_with(kept: Callable[[Command], bool]) -> list[str]:
    runs = [one for one in ALL if looked_up(NOT_RUN, one) is None and kept(one)]
    return list(dict.fromkeys(command.page for command in runs))


@pytest.mark.process
@pytest.mark.parametrize("page", pages_with(lambda command: not is_long(command)))
def test_its_commands_run(page: str, workplace: Path) -> None:
    for command in commands_of(page):
        if looked_up(NOT_RUN, command) is None and not is_long(command):
            run(command, workplace)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with(is_long))
def test_its_long_commands_run(page: str, workplace: Path) -> None:
    for command in commands_of(page):
        if looked_up(NOT_RUN, command) is None and is_long(command):
            run(command, workplace)
