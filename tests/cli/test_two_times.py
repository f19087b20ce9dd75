"""Both times of a verdict wherever it is looked at, from logged verdicts alone."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from engine.cli.main import cli
from events.connect import connect_read_only
from events.outcomes import Correct
from events.reader import LogReader
from events.writer import LogWriter
from projections.export.frames import frames_of
from tests.engine.world import World, config_of

DEVICE_MS = {1: 2.5, 2: 5.0, 3: 4.0}
EAGER = {1: 0.8, 2: 1.6, 3: 1.2}
"""Of a root of 10 ms: 4x on the device and slower in a loop; 2x and 1.6x; 2.5x and 1.2x."""


def verdict(node: int, *, on_cpu: bool = False) -> Correct:
    runtime = DEVICE_MS[node]
    found = Correct(
        runtime_ms=runtime, speedup=10 / runtime, ratio=runtime / 10, ratio_low=runtime / 11,
        ratio_high=runtime / 9, pairs=20, candidate_ms=runtime, baseline_ms=10.0,
        first_call_ms=1234.5,
    )  # fmt: skip
    if on_cpu:
        return found
    eager = EAGER[node]
    return msgspec.structs.replace(
        found, eager_speedup=eager, eager_low=eager / 1.1, eager_high=eager * 1.1,
        eager_ms=11 / eager, eager_baseline_ms=11.0,
        labels=["host-bound"] if eager < 1 else [],
    )  # fmt: skip


async def _write(path: Path, score: str, on_cpu: bool) -> None:
    world = World(config_of(score=score, attempts=3, epsilon=0), 1, failing=0.0)
    outcomes = [verdict(node, on_cpu=on_cpu) for node in DEVICE_MS]
    world._outcome = lambda: outcomes.pop(0)  # type: ignore[method-assign]
    world.run()
    async with LogWriter(path) as log:
        run = log.create_run(path.stem)
        for body in world.bodies:
            seq = log.append(run, body, [])
        await log.durable(seq)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory, found = tmp_path_factory.mktemp("two-times"), {}
    for name, score in (("device", "device"), ("eager", "eager"), ("cpu", "eager")):
        found[name] = directory / f"{name}.db"
        anyio.run(_write, found[name], score, name == "cpu")
    return found


@pytest.fixture(autouse=True)
def texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """These logs have none."""
    monkeypatch.setattr(LogReader, "text", lambda *_: "source\n")


def look(*words: object) -> tuple[str, str]:
    """stdout and stderr."""
    result = CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def as_json(*words: object) -> Any:
    return json.loads(look(*words, "--json")[0])


def test_the_tree_has_both(logs: dict[str, Path]) -> None:
    first, second = look("tree", logs["device"])[0].splitlines()[1:3]
    assert "2.5 ms  4.00×, 0.80× in a loop  [host-bound]" in first
    assert "5 ms  2.00×, 1.60× in a loop" in second
    lines = [json.loads(line) for line in look("tree", logs["eager"], "--json")[0].splitlines()]
    assert [line["outcome"]["eager_speedup"] for line in lines[1:]] == list(EAGER.values())
    assert [line["score_ms"] for line in lines] == pytest.approx([10, 12.5, 6.25, 10 / 1.2])


def test_show_has_both_with_the_interval_and_what_the_label_says(logs: dict[str, Path]) -> None:
    shown, _ = look("show", logs["device"], 1)
    assert "in a loop 0.80× (0.73–0.88): 13.75 ms a call against 11 ms" in shown
    assert "label host-bound: faster on the device and slower" in shown
    assert as_json("show", logs["device"], 1)["evaluation"]["outcome"]["first_call_ms"] == 1234.5


def test_best_says_which_score_it_went_by_and_names_the_other(logs: dict[str, Path]) -> None:
    _, said = look("best", logs["device"])
    assert "attempt 1: 2.5 ms, 4.00× the speed of eager (10 ms), 0.80× in a loop" in said
    assert "best by device time  [host-bound]" in said
    other = "attempt 2 2.00×, 1.60× in a loop; the best, attempt 1 4.00×, 0.80× in a loop"
    assert f"another is better by calls in a loop: {other}" in said
    _, said = look("best", logs["eager"])
    assert "attempt 2: 5 ms, 2.00× the speed of eager (10 ms), 1.60× in a loop" in said
    assert "best by calls in a loop" in said
    assert "another is better by device time: attempt 1 4.00×, 0.80× in a loop" in said
    found = as_json("best", logs["eager"])
    assert (found["best"]["node"], found["best"]["score"]) == (2, "eager")
    assert (found["otherwise"]["node"], found["otherwise"]["score"]) == (1, "device")
    assert as_json("best", logs["cpu"])["otherwise"] is None


@pytest.mark.parametrize("words", [("tree",), ("status",), ("report",), ("ls",)])
def test_where_the_two_are_one_it_is_shown_once(
    logs: dict[str, Path], words: tuple[str, ...], tmp_path: Path
) -> None:
    where = logs["cpu"]
    if words == ("ls",):
        (tmp_path / "cpu.db").write_bytes(where.read_bytes())
        where = tmp_path
    shown, _ = look(*words, where)
    assert "4.00×" in shown or "| 4 " in shown or "| 4.0 " in shown
    assert "in a loop" not in shown


def test_the_report_ranks_by_the_score_and_has_both(logs: dict[str, Path]) -> None:
    made = as_json("report", logs["eager"])
    places = [(p["node"], p["speedup"], p["eager_speedup"]) for p in made["leaderboard"]]
    assert places == [(2, 2.0, 1.6), (3, 2.5, 1.2), (1, 4.0, 0.8)]
    assert [step["node"] for step in made["steps"]] == [1, 2]
    assert made["funnel"]["all"]["faster"] == 2, "by the score"
    text, _ = look("report", logs["eager"])
    assert "× in a loop" in text


def test_status_and_the_summary_have_both(logs: dict[str, Path]) -> None:
    best = as_json("status", logs["device"])["best"]
    assert (best["speedup"], best["eager_speedup"], best["eager_ms"]) == (4.0, 0.8, 13.75)
    assert "0.80× in a loop, best by device time" in look("status", logs["device"])[0]


def view(path: Path, query: str) -> list[dict[str, Any]]:
    connection = connect_read_only(path, views=True)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute(query)]
    connection.close()
    return rows


def test_views_and_tables_have_both(logs: dict[str, Path]) -> None:
    rows = view(logs["eager"], "SELECT * FROM evaluations ORDER BY node")
    assert [row["eager_speedup"] for row in rows] == list(EAGER.values())
    assert rows[0]["first_call_ms"] == 1234.5
    assert rows[1]["eager_baseline_ms"] == 11.0
    nodes = view(logs["eager"], "SELECT node, eager_speedup FROM nodes ORDER BY node")
    assert [row["eager_speedup"] for row in nodes] == [None, *EAGER.values()]
    with LogReader(logs["eager"]) as log:
        frames = frames_of([log])
    assert [row.eager_speedup for row in frames.evaluations] == list(EAGER.values())
    assert [row.eager_speedup for row in frames.nodes] == [None, *EAGER.values()]
    (run,) = frames.runs
    assert (run.score, run.best_node, run.best_eager_speedup) == ("eager", 2, 1.6)


@pytest.mark.parametrize(("name", "bests"), [("device", [1]), ("eager", [1, 2]), ("cpu", [1])])
def test_the_bests_over_time_go_by_the_score(
    logs: dict[str, Path], name: str, bests: list[int]
) -> None:
    rows = view(logs[name], "SELECT node FROM best_over_time ORDER BY run_seq")
    assert [row["node"] for row in rows] == bests
