"""Every command on a real log, by its exit code, its stdout and its errors."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from events.bodies import AgentCalled, AgentReplied
from events.lock import holder
from events.reader import LogReader
from tests.cli.conftest import (
    SEARCH,
    SMALL,
    engine_command,
    environment,
    run_engine,
    start_engine,
)


def engine_json(*args: object) -> list[dict[str, Any]]:
    done = run_engine(*args, "--json")
    assert done.returncode in (0, 4), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_status_ls_and_tree(finished: Path) -> None:
    (status,) = engine_json("status", finished)
    judged = status["attempts"] - status["abandoned"] - status["duplicates"]
    assert status["pool"]["evaluations"] == judged
    assert 0 < status["pool"]["device_busy"] <= 1
    assert (status["status"], status["attempts"], status["canned"]) == ("finished", 5, True)
    (row,) = engine_json("ls", finished.parent)
    assert row == {**status, "log": row["log"]}
    nodes = engine_json("tree", finished)
    assert len(nodes) == 6
    assert nodes[0]["runtime_ms"] > 0
    outcomes = {node["outcome"]["type"] for node in nodes[1:]}
    assert "correct" in outcomes
    drawn = run_engine("tree", finished)
    assert len(drawn.stdout.splitlines()) == 6
    assert "canned" in drawn.stderr
    early = engine_json("tree", finished, "--at", 3)
    assert len(early) == 1


def test_show_and_prompt(finished: Path) -> None:
    (shown,) = engine_json("show", finished, 1)
    assert "class ModelNew" in shown["texts"]["source"]
    assert shown["texts"]["advice"].startswith("Fold")
    assert shown["evaluation"]["timings_s"]
    (prompt,) = engine_json("prompt", finished, 1, "plan")
    names = [part["name"] for part in prompt["parts"]]
    assert names[:3] == ["system", "example", "device"]
    assert names[-1] == "instruction"
    for_people = run_engine("show", finished, 1)
    assert for_people.returncode == 0
    assert "--- timing ---\nmedian " in for_people.stdout
    assert run_engine("prompt", finished, 1, "code").returncode == 0
    missing = run_engine("show", finished, 99)
    assert (missing.returncode, "no node 99" in missing.stderr) == (2, True)
    nothing = run_engine("prompt", finished, 1, "debug")
    assert (nothing.returncode, "no debug prompt" in nothing.stderr) == (2, True)


@pytest.mark.process
def test_a_spliced_source_is_shown_with_its_changes() -> None:
    log = Path(__file__).parents[1] / "histories" / "spans.db"
    (shown,) = engine_json("show", log, 1)
    removed, added = (
        "-        y = x * 2\n",
        "+        return torch.softmax(torch.add(x * 2, 1), dim=-1)\n",
    )
    changes = shown["texts"]["changes"]
    assert changes.startswith("--- node 0\n+++ node 1\n@@ ")
    assert removed in changes
    assert added in changes
    assert "-import" not in changes, "what stayed as it was is no change"
    for_people = run_engine("show", log, 1).stdout
    assert f"--- changes ---\n{changes.rstrip()}\n" in for_people
    (whole,) = engine_json("show", log.with_name("stark.db"), 2)
    assert "changes" not in whole["texts"], "the coder returned a whole file"


def test_best_is_the_fastest_source(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "kernel.py"
    done = run_engine("best", finished, "-o", out)
    assert done.returncode == 0
    assert "class ModelNew" in out.read_text()
    assert run_engine("best", finished).stdout == out.read_text()
    nodes = engine_json("tree", finished)
    (best,) = engine_json("best", finished)
    times = [n["runtime_ms"] for n in nodes[1:] if n["runtime_ms"] is not None]
    assert best["best"]["runtime_ms"] == min(times)


def test_replay_and_verify_agree(finished: Path) -> None:
    done = run_engine("replay", finished, "--verify")
    assert (done.returncode, "agree" in done.stdout) == (0, True)
    (report,) = engine_json("replay", finished, "--verify")
    assert report["difference"] is None
    assert report["prompts"] > 0
    assert report["prompts_different"] == []
    assert "attempt 1 from node 0" in run_engine("replay", finished).stdout
    done = run_engine("verify", finished)
    assert (done.returncode, "intact" in done.stdout) == (0, True)


def test_an_altered_log_is_found_by_verify_and_replay(finished: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    log.write_bytes(finished.read_bytes())
    connection = sqlite3.connect(log)
    connection.execute("DROP TRIGGER events_update")
    connection.execute(
        "UPDATE events SET body = json_set(body, '$.node', 7) WHERE type = 'NodeSelected'"
        " AND json_extract(body, '$.attempt') = 2"
    )
    connection.commit()
    connection.close()
    done = run_engine("verify", log)
    assert done.returncode == 5
    assert "does not match" in done.stdout
    done = run_engine("replay", log, "--verify")
    assert done.returncode == 5
    assert "| node " in done.stderr
    assert "likely    edited log" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_and_resumed_it_finishes_and_verifies(tmp_path: Path, workers: int) -> None:
    log = tmp_path / "log.db"
    args = [*SEARCH, "--attempts", 4, "--workers", workers, "--log", log]
    process = start_engine(*args)
    deadline = time.monotonic() + 120
    while _events(log) < 12 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (status,) = engine_json("status", log)
    assert status["status"] == "interrupted"
    (done,) = engine_json("resume", log, "--display", "none")
    assert (done["status"], done["attempts"]) == ("finished", 4)
    assert run_engine("verify", log).returncode == 0
    assert run_engine("replay", log, "--verify").returncode == 0
    answered: set[int] = set()
    with LogReader(log) as reader:
        for event in reader.events(1):
            if isinstance(event.body, AgentCalled):
                assert event.body.call not in answered
            if isinstance(event.body, AgentReplied):
                answered.add(event.body.call)
    again = run_engine("resume", log)
    assert (again.returncode, "--attempts +N" in again.stderr) == (2, True)


def _events(log: Path) -> int:
    try:
        with sqlite3.connect(f"file:{log}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.process
def test_interrupt_prints_the_resume_line(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    process = start_engine(
        *SEARCH, "--attempts", 50, "--log", log, "--json",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while _events(log) < 8 and process.poll() is None:
        time.sleep(0.02)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - began < 5  # one, but for a busy machine; fifty attempts take minutes
    assert f"engine resume {log}" in err
    assert json.loads(out)["status"] == "interrupted"
    second = run_engine(*SEARCH, "--attempts", 1, "--log", log)  # another run in the same file
    assert second.returncode in (0, 4), second.stderr
    several = run_engine("status", log)
    assert (several.returncode, "holds 2 runs" in several.stderr) == (2, True)
    assert engine_json("status", f"{log}#1")[0]["status"] == "interrupted"
    process = start_engine("resume", f"{log}#1", stderr=subprocess.PIPE)
    before = _events(log)
    while _events(log) == before and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert f"engine resume '{log}#1'" in process.communicate(timeout=60)[1]
    assert run_engine("verify", log).returncode == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_resume_that_is_interrupted_as_it_starts_says_how_to_go_on(
    finished: Path, tmp_path: Path, backend: str
) -> None:
    log = tmp_path / "a log.db"
    log.write_bytes(finished.read_bytes())
    words = ["resume", str(log), "--attempts", "+40", "--backend", backend]
    process = start_engine(*words, stderr=subprocess.PIPE)
    while holder(log) != process.pid and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    # It has not gone on, so that the attempts are still to be added; unless it was that fast.
    again = shlex.join(["engine", *words]) if _events(log) == _events(finished) else "engine resume"
    assert f"interrupted. Go on with: {again}" in err
    assert "Traceback" not in err


@pytest.mark.process
def test_nobody_reading_stderr_is_no_reason_to_stop(tmp_path: Path) -> None:
    args = " ".join(
        map(
            shlex.quote,
            engine_command(
                *SEARCH,
                "--attempts",
                2,
                "--log",
                tmp_path / "log.db",
                "--json",
                "--display",
                "plain",
            ),
        )
    )
    done = subprocess.run(
        ["bash", "-c", f"{args} 2>&1 >{tmp_path}/out | head -1"], check=False, timeout=120,
        capture_output=True, env=environment(),
    )  # fmt: skip
    assert done.stdout
    assert json.loads((tmp_path / "out").read_text())["attempts"] == 2


@pytest.mark.process
def test_a_playbook_with_nothing_to_say_pauses_the_run(tmp_path: Path) -> None:
    for name in ("task.py", "fused.py"):
        (tmp_path / name).write_text((SMALL / name).read_text())
    book = tmp_path / "book.toml"
    book.write_text('title = "t"\ntask = "task.py"\n[kernels]\nfused = "fused.py"\n')
    log = tmp_path / "log.db"
    done = run_engine(
        "run", tmp_path / "task.py", "--model", f"playbook:{book}", "--device", "cpu",
        "--attempts", 1, "--log", log,
    )  # fmt: skip
    assert done.returncode == 75
    assert "has no reply for role 'plan'" in done.stderr
    assert f"engine resume {log}" in done.stderr
    assert engine_json("status", log)[0]["status"] == "paused"


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_is_honoured(finished: Path, no_color: bool) -> None:
    leader, follower = pty.openpty()
    told = environment(TERM="xterm")
    told.pop("NO_COLOR", None)
    if no_color:
        told["NO_COLOR"] = "1"
    subprocess.run(
        engine_command("tree", finished), stdout=follower, stderr=subprocess.DEVNULL, check=True,
        env=told,
    )  # fmt: skip
    os.close(follower)
    output = os.read(leader, 65536)
    os.close(leader)
    assert (b"\x1b[" in output) == (not no_color)


@pytest.mark.process
def test_a_second_writer_is_refused_with_the_pid(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    process = start_engine(*SEARCH, "--attempts", 50, "--log", log)
    try:
        while _events(log) < 5 and process.poll() is None:
            time.sleep(0.02)
        done = run_engine("resume", log)
        assert (done.returncode, f"process {process.pid} is writing" in done.stderr) == (2, True)
    finally:
        process.kill()
        process.wait()


@pytest.mark.process
def test_eval_has_autopsies_of_what_is_wrong_where_there_is_time_for_them() -> None:
    judged = ("eval", SMALL / "task.py", SMALL / "wrong.py", "--device", "cpu", "--autopsy")
    none = run_engine(*judged, "--set", "sandbox.autopsy_timeout_s=0")
    assert (none.returncode, "set sandbox.autopsy_timeout_s above 0" in none.stderr) == (2, True)
    done = run_engine(*judged)
    assert (done.returncode, "wrong.py: wrong result" in done.stdout) == (4, True)


@pytest.mark.process
def test_eval_judges_each_candidate() -> None:
    rows = engine_json(
        "eval", SMALL / "task.py", SMALL / "fused.py", SMALL / "wrong.py", SMALL / "broken.py",
        SMALL / "task.py", "--device", "cpu",
    )  # fmt: skip
    outcomes = {Path(row["candidate"]).stem: row["outcome"] for row in rows}
    assert outcomes == {
        "fused": "correct", "wrong": "wrong_result", "broken": "compile_failed",
        "task": "no_candidate",
    }  # fmt: skip
    fused = next(row for row in rows if row["outcome"] == "correct")
    assert fused["speedup"] == pytest.approx(fused["baseline_ms"] / fused["runtime_ms"], rel=0.5)
    assert {"compile", "check", "bench"} & fused["timings_s"].keys()
    assert fused["observations"]["work"]["input_bytes"] > 0
    assert "torch-only" in fused["labels"]
    assert 0 <= fused["peak_bytes"] < 64 << 20
    assert 0 <= fused["reference_peak_bytes"] < 64 << 20
    assert all(row["peak_bytes"] is None for row in rows if row is not fused)
    none = run_engine(
        "eval", SMALL / "task.py", SMALL / "wrong.py", SMALL / "fused.py", "--device", "cpu",
        "--refuse", "torch-only,fallback",
    )  # fmt: skip
    assert none.returncode == 4
    assert "fused.py: refused: correct, at" in none.stdout
    assert "does not take what is torch-only: no kernel of its own" in none.stdout
    assert "--- error ---\n  largest absolute error" in none.stderr
