"""``engine fork`` on a finished run; every command that reads a run reads the fork."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.cli.exits import Failure
from engine.cli.main import cli
from events.bodies import AgentCalled, EvaluationFinished
from events.envelope import Event
from events.reader import LogReader
from tests.cli.conftest import SMALL, run_engine
from tests.histories.pins import HERE

pytestmark = pytest.mark.process

BOOK = f"playbook:{SMALL / 'playbook.toml'}"
PRICED = ["--set", f'prices."{BOOK}"={{input=1, output=1}}']
ELSE = ["--set", "model=playbook:another.toml"]


def engine(*args: object) -> str:
    """In this process; a failure is raised."""
    result = CliRunner().invoke(cli, list(map(str, args)))
    if isinstance(result.exception, Failure):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def engine_json(*args: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in engine(*args, "--json").splitlines()]


@pytest.fixture(scope="module")
def forked(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run 2 shares the first two verdicts of run 1 and makes four attempts."""
    log = tmp_path_factory.mktemp("forked") / "log.db"
    shutil.copy(finished, log)
    done = run_engine(
        "fork", log, "--at", _second_verdict(log), "--replies", "recorded", "--json",
        "--set", "budget.attempts=4", "--set", "search.workers=1",
    )  # fmt: skip
    assert done.returncode in (0, 4), done.stderr
    summary = json.loads(done.stdout)
    assert (summary["status"], summary["log"]) == ("finished", f"{log}#2")
    assert summary["fork"]["changed"] == {"budget.attempts": 4, "search.workers": 1}
    return log


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _verdicts(log: Path) -> list[Event]:
    with LogReader(log) as reader:
        return [e for e in reader.events(1) if isinstance(e.body, EvaluationFinished)]


def _second_verdict(log: Path) -> int:
    return _verdicts(log)[1].run_seq


def test_everything_reads_a_fork_as_its_prefix_and_its_own(forked: Path, tmp_path: Path) -> None:
    fork, at = f"{forked}#2", _second_verdict(forked)
    (status,) = engine_json("status", fork)
    assert status["attempts"] == 4
    replies = status["fork"]["recorded_replies"], status["fork"]["live_replies"]
    assert sum(replies) > 0
    assert f"{replies[0]} out of the log, {replies[1]} live" in engine("status", fork)
    verdicts = status["fork"]["recorded_evaluations"], status["fork"]["new_evaluations"]
    assert sum(verdicts) == 2 - status["abandoned"]
    assert [row["run"] for row in engine_json("ls", forked.parent)][1] == status["run"]
    assert len(engine_json("tree", fork)) == status["attempts"] + 1
    assert len(engine_json("tree", fork, "--at", at)) == len(
        engine_json("tree", f"{forked}#1", "--at", at)
    )
    judged = _verdicts(forked)[0].body.attempt  # type: ignore[attr-defined]
    (shown,), (before,) = (engine_json("show", run, judged) for run in (fork, f"{forked}#1"))
    assert (shown["texts"], shown["evaluation"]) == (before["texts"], before["evaluation"])
    assert engine_json("prompt", fork, 1, "plan") == engine_json("prompt", f"{forked}#1", 1, "plan")
    tail = engine_json("tail", fork, "-n", 1000)
    assert [event["run_seq"] for event in tail] == list(range(1, len(tail) + 1))
    assert tail[at]["type"] == "RunForked"
    assert f"forked from {status['fork']['parent']}" in engine("tail", fork, "-n", 1000)
    assert engine_json("search", fork, "expression", "--in", "plan")
    assert engine_json("best", fork)[0]["best"] == status["best"]
    assert len(engine_json("report", fork)[0]["leaderboard"]) == status["correct"]
    assert "intact" in engine("verify", forked)
    assert engine_json("replay", fork, "--verify")[0]["difference"] is None
    engine("export", forked, "--format", "jsonl", "-o", tmp_path)
    runs, calls = _rows(tmp_path / "runs.jsonl"), _rows(tmp_path / "calls.jsonl")
    assert [(run["parent"], run["parent_seq"]) for run in runs] == [
        (None, None), (status["fork"]["parent"], at),
    ]  # fmt: skip
    query = "SELECT run_id, run_seq, reused, usd_micros FROM calls ORDER BY run_id, run_seq"
    views = engine_json("sql", forked, query)
    for column in ("run_seq", "reused", "usd_micros"):
        assert [row[column] for row in calls] == [row[column] for row in views]
    assert sum(row["reused"] is not None for row in views) == replies[0]
    engine("export", forked, "--redact", "-o", tmp_path / "redacted.db")
    assert "agree" in engine("replay", f"{tmp_path / 'redacted.db'}#2", "--verify")


def _at(body: Any, path: list[str]) -> Any:
    for key in path:
        body = body[key]
    return body


def test_a_fork_parts_from_its_parent_where_it_says(forked: Path) -> None:
    one, two = f"{forked}#1", f"{forked}#2"
    at = _second_verdict(forked)
    (found,) = engine_json("diff", one, two)
    assert found["settings"] == {"budget.attempts": [5, 4], "search.workers": [2, 1]}
    first, second = found["parting"]["first"], found["parting"]["second"]
    assert second["decision"]["run_seq"] > at
    assert first["before"]["attempts"] >= 2
    assert second["after"]["attempts"] == 4
    assert "They part:" in engine("diff", one, two)
    for field, (left, right) in found["parting"]["fields"].items():
        path = field.split(".")
        assert left == _at(first["decision"]["body"], path)
        assert right == _at(second["decision"]["body"], path) != left
    assert "the runs do not part" in engine("diff", two, two)
    changed = engine("diff", one, 0, 1)
    assert changed.startswith("--- node 0\n+++ node 1\n")
    assert "+class ModelNew" in changed
    assert engine_json("diff", one, 0, 1)[0]["diff"] == changed.rstrip("\n")
    for wrong in ([one], [one, 0, 99], [one, 1, 2, 3]):
        with pytest.raises(Failure):
            engine("diff", *wrong)


def test_compare_sets_runs_side_by_side(forked: Path) -> None:
    (found,) = engine_json("compare", forked)
    assert [run["summary"]["attempts"] for run in found["runs"]] == [5, 4]
    assert found["incomparable"] == {}
    assert "by seconds" in engine("compare", forked)
    said = engine("compare", HERE / "paper.db", HERE / "0.1" / "stark_softmax_h200.db")
    assert "NOT COMPARABLE: the runs differ in task, device, sandbox.protocol." in said
    with pytest.raises(Failure, match="nothing to compare"):
        engine("compare", f"{forked}#1")


def test_attempts_that_another_team_began_end_under_it(finished: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    shutil.copy(finished, log)
    with LogReader(log) as reader:
        called = next(e for e in reader.events(1) if isinstance(e.body, AgentCalled))
    assert isinstance(called.body, AgentCalled)
    playbook = Path(called.body.model.removeprefix("playbook:"))
    other = f"{playbook.parent}/../{playbook.parent.name}/{playbook.name}"
    done = run_engine(
        "fork", log, "--at", called.run_seq, "--set", "search.team=single", "--json",
        "--set", f"roles.{called.body.role}.model=playbook:{other}",
        "--set", "budget.attempts=1", "--set", "search.workers=1",
    )  # fmt: skip
    assert done.returncode in (0, 4), done.stderr
    with LogReader(log) as reader:
        roles = [e.body.role for e in reader.events(2) if isinstance(e.body, AgentCalled)]
    assert roles[0] == "plan"
    assert "single" not in roles


def test_a_killed_fork_is_resumed(forked: Path, tmp_path: Path) -> None:
    """What a kill leaves of it: here the fork's first event and nothing more."""
    log = tmp_path / "log.db"
    shutil.copy(forked, log)
    with sqlite3.connect(log) as raw:
        (first,) = raw.execute("SELECT min(seq) FROM events WHERE run_id = 2").fetchone()
        for name in ("events_delete", "blob_refs_delete"):
            raw.execute(f"DROP TRIGGER {name}")
        for table in ("blob_refs", "events"):
            raw.execute(f"DELETE FROM {table} WHERE seq > ?", (first,))
    raw.close()
    done = run_engine("resume", f"{log}#2", "--json")
    assert done.returncode in (0, 4), done.stderr
    before = engine_json("status", f"{forked}#2")[0]
    after = json.loads(done.stdout)
    assert (after["status"], after["attempts"]) == ("finished", before["attempts"])
    assert after["fork"] == before["fork"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--at", "9999"], "--at 9999: .* has events 1 to"),
        (["--at", "9", "--set", "sandbox.device=cuda:0"], "sandbox.device can't change in a fork"),
        (["--at", "9", "--set", "sandbox.protocol=paper"], "sandbox.protocol can't change in a"),
        (["--at", "9", "--set", "search.epsilno=1"], "did you mean search.epsilon?"),
        (["--at", "9", "--set", "search.epsilon=2"], "search.epsilon must be between 0 and 1"),
        (["--at", "9", "--set", "task=other.py"], "unknown key task"),
        (["--at", "9", *PRICED], "the price of playbook:.* can't change in a fork"),
        (["--at", "9", *ELSE, *PRICED], "the price of playbook:.* can't change in a fork"),
        (["--at", "9", "--set", "budget.attempts"], "write KEY=VALUE"),
        (["--at", "2", "--evaluations", "recorded"], "fork after BaselineMeasured"),
    ],
)
def test_what_is_refused_is_named(finished: Path, args: list[str], told: str) -> None:
    before = finished.read_bytes()
    with pytest.raises(Failure, match=told.replace("?", r"\?")):
        engine("fork", finished, *args)
    assert finished.read_bytes() == before


def test_a_finished_budget_is_named(finished: Path, tmp_path: Path) -> None:
    with LogReader(finished) as reader:
        last = reader.newest_run_seq(1)
    with pytest.raises(Failure, match=r"all 5 attempts are made; .* --set budget.attempts=N"):
        engine("fork", finished, "--at", last)
    with pytest.raises(Failure, match="no such log"):
        engine("fork", tmp_path / "none.db", "--at", 1)
    assert not (tmp_path / "none.db").exists()
