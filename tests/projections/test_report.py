"""A report's figures, also against what the log's own views say."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from engine.cli.main import cli
from events.connect import connect_read_only
from events.reader import LogReader
from projections.run.report import Report, report_of
from projections.search.failures import reason_class
from projections.search.steps import Step
from tests.histories.pins import histories

RUNS = histories() | histories(older=True)


def report(path: Path, run: int = 1) -> Report:
    with LogReader(path) as reader:
        return report_of(reader.events(run), run="r", log=path.name)


def view(path: Path, query: str) -> list[dict[str, object]]:
    connection = connect_read_only(path, views=True)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute(query)]
    connection.close()
    return rows


def test_how_far_attempts_came(rich: Path) -> None:
    funnel = msgspec.to_builtins(report(rich).funnel)
    assert list(funnel["all"].values()) == [7, 5, 4, 3, 2]
    assert list(funnel["plan+code"].values()) == [6, 4, 3, 2, 1]
    assert list(funnel["debug"].values()) == [1, 1, 1, 1, 1]


def test_places_and_new_bests(rich: Path) -> None:
    made = report(rich)
    places = [(p.rank, p.node, p.parent, p.made, p.speedup) for p in made.leaderboard]
    assert places == [
        (1, 5, 2, "plan+code", 2.5), (2, 2, 1, "debug", 2.0), (3, 3, 2, "plan+code", 0.5),
    ]  # fmt: skip
    assert [(step.node, step.attempts) for step in made.steps] == [(2, 2), (5, 5)]
    assert made.summary.best is not None
    assert made.steps[-1].runtime_ms == made.summary.best.runtime_ms


def test_failures_have_classes(rich: Path) -> None:
    made = report(rich)
    told = [(f.failure, f.pattern, f.count, f.nodes) for f in made.failures]
    assert told == [
        ("compile_failed", "‘…’ line #: no", 1, [1]), ("abandoned", "no plan", 1, [4]),
        ("wrong_result", "error # (# of #)", 1, [6]),
    ]  # fmt: skip
    calls = [(f.failure, f.pattern, f.count, f.nodes) for f in made.call_failures]
    assert calls == [("rejected", "no plan #", 2, [4]), ("overloaded", "try # later", 1, [2])]
    assert reason_class("x1 in 'f 3': -1.5e-07\nmore") == "x1 in ‘…’: #"


def test_time_adds_up(rich: Path) -> None:
    stages = {stage.stage: stage.seconds for stage in report(rich).stages}
    assert stages == {
        "plan": 9.0, "code": 6.0, "debug": 1.5, "compile": 10.0, "queue": 2.5, "check": 1.25,
        "bench": 2.5, "lease, other": 1.25,
    }  # fmt: skip
    assert sum(stage.share for stage in report(rich).stages) == pytest.approx(1)


@pytest.mark.parametrize("name", [*RUNS, "rich"])
def test_the_views_say_the_same(name: str, rich: Path) -> None:
    path, run = RUNS.get(name, (rich, 1))
    made = report(path, run)
    spend = {role: msgspec.to_builtins(spent) for role, spent in made.spend.items()}
    for spent in spend.values():
        # In SQL, a call without usage has null tokens, and so has a sum of such calls only.
        if spent["uncounted_calls"] == spent["calls"]:
            spent["input_tokens"] = spent["output_tokens"] = None
    costs = view(path, f"SELECT * FROM costs_by_role WHERE run_id = {run}")
    assert {row.pop("role"): row for row in costs if row.pop("run_id")} == spend
    rows = view(path, f"SELECT * FROM best_over_time WHERE run_id = {run} ORDER BY run_seq")
    steps = [msgspec.to_builtins(step) for step in made.steps]
    names = rows[0].keys() & steps[0].keys() if steps else ()
    assert [{n: row[n] for n in names} for row in rows] == [{n: s[n] for n in names} for s in steps]
    assert {*Step.__struct_fields__} - {*names} == {"wall_s"} or not steps


def test_the_command_prints_markdown_and_json(rich: Path, tmp_path: Path) -> None:
    run = CliRunner()
    shown = run.invoke(cli, ["report", str(rich), str(RUNS["best_of_k"][0])]).stdout
    assert shown.startswith("# rich.py")
    assert "| all       |        7 |        5 |        4 |       3 |                 2 |" in shown
    assert "canned replies" in shown
    lines = run.invoke(cli, ["report", str(rich), "--json"]).stdout.splitlines()
    assert json.loads(lines[0])["funnel"]["all"]["faster"] == 2
    out = tmp_path / "report.md"
    assert run.invoke(cli, ["report", str(rich), "-o", str(out)]).exit_code == 0
    assert out.read_text().startswith("# rich.py")
    refused = run.invoke(cli, ["report", str(rich), "-o", str(tmp_path / "a.html")])
    assert "name a .md file" in str(refused.exception)


def test_labels_stand_beside_every_figure(rich: Path) -> None:
    def out(*words: str) -> str:
        return CliRunner().invoke(cli, list(words)).stdout

    log, words = str(rich), "[not-gated, fallback]"
    assert f"2.50× the speed of eager (10 ms)  {words}" in out("status", log)
    assert f"4 ms  2.50×  {words}" in out("tree", log)
    assert f"outcome 4 ms  2.50×  {words}" in out("show", log, "5")
    assert "label fallback: beside its kernel" in out("show", log, "5")
    assert f"best: attempt 5: 4 ms, 2.50× the speed of eager (10 ms)  {words}" in out("report", log)
    (place,) = [line for line in out("report", log).splitlines() if line.startswith("|    1 |")]
    assert place.endswith("| not-gated, fallback |")
    assert "| not-gated, fallback |" in out("compare", log, log)
    assert json.loads(out("status", log, "--json"))["best"]["labels"] == ["not-gated", "fallback"]


def test_a_run_without_labels_shows_no_place_for_them() -> None:
    log = f"{RUNS['0.1/start#1'][0]}#1"
    for command in ("report", "status", "tree"):
        shown = CliRunner().invoke(cli, [command, log]).stdout
        assert "×" in shown
        assert "| labels" not in shown
        assert "  [" not in shown


def test_several_planners_are_set_side_by_side(rich: Path) -> None:
    path, run = RUNS["planners#2"]
    planners = report(path, run).planners
    found = {name.rpartition("/")[2]: (arm.pulls, arm.in_flight) for name, arm in planners.items()}
    assert found == {"playbook.toml": (4, 0), "hopeless.toml": (4, 0)}
    (good,) = [arm.mean_reward for arm in planners.values() if arm.mean_reward]
    assert 0 < good < 1
    shown = CliRunner().invoke(cli, ["report", f"{path}#{run}"]).stdout
    assert "| playbook:tests/histories/hopeless.toml |     4 | 0.25" in shown
    status = CliRunner().invoke(cli, ["status", f"{path}#{run}"]).stdout
    assert "hopeless.toml: 4 pulls, mean reward 0.25, $0.0000, 0 tokens" in status
    priced = report(rich).planners["m"]
    assert priced.pulls == 5
    assert priced.cost_usd is None, "one of its plans went to a coder without a price"
    assert "Planners" not in CliRunner().invoke(cli, ["report", str(rich)]).stdout
