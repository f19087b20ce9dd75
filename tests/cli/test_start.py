"""``engine run --start``: what is refused, and how a log says whose kernel it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.cli.exits import Failure
from engine.cli.main import cli
from events.bodies import AgentCalled
from events.reader import LogReader
from tests.cli.conftest import SEARCH, SMALL, run_engine
from tests.histories.pins import HERE

KERNEL = (SMALL / "fused.py").read_bytes()


def invoked(*args: object) -> Result:
    done = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe\x00", "not a UTF-8 text file"),
        (b"def f(:\n", "line 1: syntax error"),
        (b"class ModelNew: pass\n\0", "null bytes"),
        (KERNEL.replace(b"ModelNew", b"Model"), "no class ModelNew"),
        (KERNEL + b"#" * (256 << 10), "larger than 256 KiB"),
    ],
)
def test_what_is_no_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, message: str
) -> None:
    kernel, log = tmp_path / "k.py", tmp_path / "new" / "log.db"
    if content is not None:
        kernel.write_bytes(content)
    monkeypatch.delenv("ENGINE_SEARCH_START", raising=False)
    with pytest.raises(Failure, match=message) as refused:
        cli([*SEARCH, "--start", str(kernel), "--log", str(log)], standalone_mode=False)
    assert (refused.value.code, str(kernel) in str(refused.value)) == (2, True)
    # The same by its key's variable.
    monkeypatch.setenv("ENGINE_SEARCH_START", str(kernel))
    with pytest.raises(Failure, match=message):
        cli([*SEARCH, "--log", str(log)], standalone_mode=False)
    assert not log.parent.exists()


@pytest.mark.process
def test_alone_it_is_judged_and_nobody_is_asked(tmp_path: Path) -> None:
    kernel, log = tmp_path / "mine.py", tmp_path / "log.db"
    # As an editor elsewhere may leave it.
    kernel.write_bytes(b"\xef\xbb\xbf" + KERNEL.replace(b"\n", b"\r\n"))
    done = run_engine(
        "run", SMALL / "task.py", "--device", "cpu", "--model", "anthropic:claude-sonnet-5-5",
        "--attempts", 1, "--start", kernel, "--log", log, "--json",
    )  # fmt: skip
    assert done.returncode in (0, 4), done.stderr
    assert "Expected" not in done.stderr, "there is nothing to pay for, so nobody is asked"
    found = json.loads(done.stdout)
    assert (found["attempts"], found["attempts_by_agents"], found["correct"]) == (1, 0, 0)
    assert found["given"]["name"] == "mine.py"
    assert (found["best"]["node"], found["best"]["given"]) == (1, True)
    kernel.unlink()
    assert invoked("replay", log, "--verify").exit_code == 0
    best = run_engine("best", log)
    assert best.stdout.encode() == KERNEL, "the log has it"
    assert "attempt 1, the user's kernel: " in best.stderr
    # There is no key. Who is going to ask a model needs it, before anything else is done.
    before = invoked("replay", log).stdout
    more = run_engine("resume", log, "--attempts", "+1", "--yes")
    assert (more.returncode, "set ANTHROPIC_API_KEY" in more.stderr) == (3, True)
    assert invoked("replay", log).stdout == before


@pytest.mark.process
def test_a_run_that_asks_after_the_kernel_needs_its_key_at_the_start(tmp_path: Path) -> None:
    kernel, log = tmp_path / "mine.py", tmp_path / "log.db"
    kernel.write_bytes(KERNEL)
    done = run_engine(
        "run", SMALL / "task.py", "--device", "cpu", "--model", "anthropic:claude-sonnet-5-5",
        "--attempts", 2, "--start", kernel, "--log", log, "--yes",
    )  # fmt: skip
    assert (done.returncode, "set ANTHROPIC_API_KEY" in done.stderr) == (3, True)
    assert not log.exists()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(HERE / "start.db", tmp_path_factory.mktemp("start") / "log.db"))


@pytest.mark.parametrize("run", [1, 2])
def test_a_log_says_whose_it_is(history: Path, run: int) -> None:
    log = f"{history}#{run}"
    shown = invoked("show", log, 1)
    assert "given by the user as wrong.py: no model wrote it" in shown.stdout
    assert "canned" not in shown.stderr
    assert "given by the user" not in invoked("show", log, 2).stdout
    assert "─ 1 user  wrong result" in invoked("tree", log).stdout
    assert "start      attempt 1 is the user's kernel, wrong.py" in invoked("status", log).stdout
    (found,) = invoked("search", log, '"canned candidate: wrong"', "--in", "source").stdout.split(
        "\n\n"
    )
    assert "event 1: source/given" in found
    told = invoked("replay", log).stdout
    assert "attempt 1 is the kernel that the user gave" in told
    with LogReader(history) as reader:
        asked = [e.body for e in reader.events(run) if isinstance(e.body, AgentCalled)]
    assert 1 not in {body.attempt for body in asked}
    asked_for = f"SELECT source_sha256, rule FROM nodes WHERE run_id = {run} AND node = 1"
    sql = invoked("sql", history, asked_for, "--csv").stdout.splitlines()
    (node, *_) = (
        json.loads(line) for line in invoked("tree", log, "--json").stdout.splitlines()[1:]
    )
    assert sql[1] == f"{node['source_sha256']},given"


def test_a_report_says_so_and_training_pairs_leave_it_out(history: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    assert invoked("report", f"{history}#1", "-o", report).exit_code == 0
    lines = report.read_text().splitlines()
    assert "start: attempt 1 is the user's kernel, wrong.py" in lines
    assert any(line.startswith("| user ") for line in lines)
    pairs = tmp_path / "pairs.jsonl"
    for role in ("code", "debug"):
        invoked(
            "export", history, "--format", "sft", "--role", role, "--canned", "--outcome", "any",
            "-o", pairs,
        )  # fmt: skip
        written = [json.loads(line) for line in pairs.read_text().splitlines()]
        assert written
        assert 1 not in {pair["provenance"]["node"] for pair in written}
    secret = tmp_path / "redacted.db"
    assert invoked("export", history, "--redact", "-o", secret).exit_code == 0
    assert b"A canned candidate: wrong" not in secret.read_bytes()
    assert invoked("replay", f"{secret}#1", "--verify").exit_code == 0


def test_a_fork_keeps_the_start_that_there_is(history: Path) -> None:
    with pytest.raises(Failure, match=r"search\.start can't change in a fork"):
        cli(
            ["fork", f"{history}#1", "--at", "3", "--set", "search.start=other.py"],
            standalone_mode=False,
        )
