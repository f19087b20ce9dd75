"""A model that wants to steer the terminal, or the page: every command that shows its words."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from engine.cli.main import cli
from engine.cli.views.progress import event_line
from engine.config import Config
from events.bodies import (
    AgentFailed,
    AttemptAbandoned,
    BaselineMeasured,
    BaselineRequested,
    ReplyRejected,
    RunForked,
    RunStarted,
    RunStopped,
)
from events.envelope import Blob, sha256_hex
from events.outcomes import CompileFailed
from events.reader import LogReader
from events.writer import LogWriter
from projections.run.overview import Overview
from tests.cli.conftest import engine_command, environment
from tests.projections import rich

TITLE = "\x1b]0;owned\x07"
STEER = f"{TITLE}\x1b[2J\x9b31m\x9d0;x\x9c\x7f\x00\r\b\u202eevil\u2066\u200f\u2028\ufeff\U000e0041"
PAGE = "<script>alert(1)</script><img src=x onerror=alert(1)>[go](javascript:alert(1))![](http://x)"
WORDS = f"hostile{STEER}{PAGE}`|"
SOURCE = f"class ModelNew: ...  # {WORDS}\n"


class _Hostile(rich._Run):
    """A run in which a model, a compiler and a server say ``WORDS`` wherever they can."""

    def whole(self) -> None:
        task = Blob.text("task", rich.TASK)
        config = msgspec.to_builtins(Config(model="m"))
        self.add(RunStarted(
            title="t.py", config=config, task_name="t.py", task_sha256=sha256_hex(task.data),
            templates={}, seed=0, prices={}, prices_dated="2026-11-21", versions={},
            device={"name": "thing"}, canned=False,
        ), task)  # fmt: skip
        self.add(BaselineRequested())
        measured = BaselineMeasured(
            runtime_ms=10.0,
            spread=0.01,
            repetitions=9,
            timings_s={},
            isolation=[],
            notes=[WORDS],
            audit=[WORDS],
        )
        self.add(measured)
        self.select(1, 0)
        self.plan(1, WORDS)
        self.ask(1, "code")
        self.add(AgentFailed(attempt=1, role="code", call=self.call, try_=1, error="unknown",
                             message=WORDS, retryable=True))  # fmt: skip
        self.ask(1, "code", try_=2)
        self.source(1, "code", SOURCE, try_=2)
        self.verdict(1, CompileFailed(reason=WORDS), log=WORDS)
        self.select(2, 0)
        self.plan(2, f"other {WORDS}")
        self.ask(2, "code")
        self.source(2, "code", f"# other\n{SOURCE}")
        self.verdict(2, rich.correct(5.0), log=WORDS)
        self.select(3, 2)
        self.ask(3, "plan", model=f"m{WORDS}")
        self.reply(3, "plan", WORDS)
        self.add(ReplyRejected(attempt=3, role="plan", call=self.call, reason=WORDS))
        self.add(AttemptAbandoned(attempt=3, reason=WORDS))
        self.add(RunStopped(status="interrupted", reason=WORDS, best=2))


async def _write(path: Path) -> None:
    async with LogWriter(path) as log:
        run = _Hostile(log, log.create_run("hostile"))
        run.whole()
        await log.durable(run.last)
        config = msgspec.to_builtins(Config(model="m"))
        fork = _Hostile(log, log.fork(1, run.last, "fork"))
        fork.add(RunForked(
            parent="hostile", at=run.last.run_seq, config=config, changed={"model": WORDS},
            replies="live", evaluations="anew", prices={}, versions={}, canned=False,
        ))  # fmt: skip
        fork.call = run.call
        fork.select(4, 0)
        fork.plan(4, WORDS)
        fork.add(AttemptAbandoned(attempt=4, reason=WORDS))
        await log.durable(fork.last)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "log.db"
    anyio.run(_write, path)
    return path


COMMANDS = [
    "show L#1 1", "show L#1 2", "show L#1 3", "show L#2 4", "prompt L#1 1 plan",
    "prompt L#1 3 plan",
    "tree L#1", "tree L#2", "status L#1", "status L#2", "tail L -n 99", "tail L#2 -n 99",
    "diff L#1 1 2", "diff L#1 L#2", "report L#1", "report L#2", "compare L#1 L#2", "ls D",
    "replay L#1", "replay L#1 --verify", "search L hostile", "search L hostile --in source",
    "sql L SELECT~*~FROM~nodes", "sql L SELECT~*~FROM~calls", "sql L SELECT~body~FROM~history",
    "sql L SELECT~text(source_sha256)~FROM~nodes", "best L#1",
]  # fmt: skip


def said(command: str, log: Path, *more: str) -> str:
    words = [
        word.replace("L", str(log), 1) if word[0] == "L" else word.replace("~", " ")
        for word in command.split(" ")
    ]
    words = [str(log.parent) if word == "D" else word for word in words]
    done = CliRunner().invoke(cli, [*words, *more])
    return done.stdout + done.stderr + str(done.exception or "")


def unprintable(text: str) -> list[str]:
    return sorted({char for char in text if not (char.isprintable() or char in "\n\t")})


@pytest.mark.parametrize("command", [c for c in COMMANDS if not c.startswith("best")])
def test_words_of_models_do_not_steer_a_terminal(command: str, log: Path) -> None:
    shown = said(command, log)
    assert unprintable(shown) == []
    if command.split()[0] in ("show", "tree", "report", "tail", "sql"):
        assert "hostile" in shown or "owned" in shown, "the words themselves are shown"


AS_JSON = [c for c in COMMANDS if not c.startswith(("replay L#1 --verify",))]


@pytest.mark.parametrize("command", AS_JSON)
def test_json_escapes_them_and_loses_nothing(command: str, log: Path) -> None:
    shown = said(command, log, "--json")
    assert unprintable(shown) == []
    values = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
    if command in ("show L#1 1", "sql L SELECT~text(source_sha256)~FROM~nodes"):
        assert SOURCE in _texts(values)


def _texts(value: object) -> str:
    if isinstance(value, dict):
        return "".join(map(_texts, value.values()))
    if isinstance(value, list):
        return "".join(map(_texts, value))
    return value if isinstance(value, str) else ""


def test_a_report_holds_no_html_and_no_links_of_theirs(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    said(f"report L#1 -o {out}", log)
    text = out.read_text()
    assert "hostile" in text
    assert unprintable(text) == []
    for tag in ("<script", "<img", "[go]", "![]"):
        assert text.count(tag) == text.count("\\" + tag), tag


@pytest.mark.process
@pytest.mark.parametrize(
    "command", ["best L#1", "sql L SELECT~text(source_sha256)~FROM~nodes --csv"]
)
def test_what_is_data_is_raw_for_a_pipe_and_not_for_a_terminal(command: str, log: Path) -> None:
    assert TITLE in said(command, log)
    words = [w.replace("L", str(log), 1) if w[0] == "L" else w.replace("~", " ")
             for w in command.split(" ")]  # fmt: skip
    master, slave = os.openpty()
    done = subprocess.run(
        engine_command(*words), stdout=slave, stderr=slave, stdin=slave, env=environment(),
        check=False,
    )  # fmt: skip
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 65536)
        except OSError:  # what a terminal says at its end
            break
    os.close(master)
    assert done.returncode == 0, shown
    assert b"hostile" in shown
    assert unprintable(shown.decode().replace("\r\n", "\n")) == []


def test_the_display_of_a_run_is_as_harmless(log: Path) -> None:
    with LogReader(log) as reader:
        overview, lines = Overview(), []
        for event in reader.events(1):
            overview.apply(event)
            lines.append(event_line(overview, event) or "")
    assert any("hostile" in line for line in lines)
    assert unprintable("\n".join(lines)) == []
