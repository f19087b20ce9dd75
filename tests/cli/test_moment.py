"""``--at``: what it shows is what somebody saw who looked at that moment."""

from __future__ import annotations

import shutil
import sqlite3
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.exits import Failure
from engine.cli.main import cli
from events.bodies import AgentCalled, NodeSelected
from events.lock import WriterLock
from events.reader import LogReader
from tests.cli.conftest import run_engine

HISTORY = Path(__file__).parents[1] / "histories" / "resumed.db"
"""Three processes, two workers, an abandoned attempt."""
FORKED = HISTORY.with_name("forked.db")


def shown(*args: object) -> tuple[int, str, str]:
    """Exit code, stdout, and what stands on stderr or would."""
    done = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit | Failure)
    failure = done.exception if isinstance(done.exception, Failure) else None
    return (failure.code if failure else done.exit_code), done.stdout, f"{done.stderr}{failure}"


def test_at_each_event_the_run_looks_as_it_did_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogReader(HISTORY) as reader:
        bodies = [event.body for event in reader.events(1)]
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
        shutil.copy(HISTORY, tmp_path / name / "log.db")
    # Somebody writes the cut one, as somebody did when it was as short as that.
    lock = WriterLock(tmp_path / "cut" / "log.db")
    cut = sqlite3.connect(tmp_path / "cut" / "log.db")
    for (trigger,) in cut.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
    ).fetchall():
        cut.execute(f"DROP TRIGGER {trigger}")
    seen = set()
    for at in range(len(bodies), 0, -1):
        cut.execute("DELETE FROM blob_refs WHERE seq > ?", (at,))
        cut.execute("DELETE FROM events WHERE seq > ?", (at,))
        cut.commit()
        so_far = bodies[:at]
        node = max((b.attempt for b in so_far if isinstance(b, NodeSelected)), default=0)
        role = next((b.role for b in reversed(so_far) if isinstance(b, AgentCalled)), "plan")
        for command in (
            ("tree", "log.db"), ("status", "log.db"), ("tree", "log.db", "--json"),
            ("show", "log.db", node, "--json"), ("report", "log.db", "--json"),
            ("best", "log.db"), ("prompt", "log.db", node, role),
        ):  # fmt: skip
            monkeypatch.chdir(tmp_path / "whole")
            rebuilt = shown(*command, "--at", at)
            monkeypatch.chdir(tmp_path / "cut")
            assert rebuilt == shown(*command), (command, at)
            seen.add((command[0], rebuilt[0]))
    lock.release()
    cut.close()
    assert seen >= {("best", 0), ("best", 4), ("prompt", 0), ("prompt", 2), ("show", 0)}


@pytest.mark.parametrize("command", [("tree",), ("status",), ("show", 0), ("best",), ("report",)])
@pytest.mark.parametrize("at", [0, -1, 92])
def test_a_moment_that_never_was_is_an_error_with_the_range(
    command: tuple[object, ...], at: int
) -> None:
    code, out, said = shown(command[0], HISTORY, *command[1:], "--at", at)
    assert (code, out) == (2, "")
    assert f"--at {at}: {HISTORY} has events 1 to 91" in said


@pytest.mark.process
def test_a_node_that_was_not_there_yet() -> None:
    done = run_engine("show", HISTORY, 6, "--at", 20)
    assert done.returncode == 2
    assert done.stderr == "engine: no node 6: up to event 20 the run has 0 to 2\n"


def test_a_fork_is_its_parent_up_to_where_it_left_it() -> None:
    """The third run shares 50 events with the second, 40 of which are the first's."""
    for command, at in product(("tree", "best", "status"), range(1, 51)):
        told = [
            shown(command, f"{FORKED}#{run}", "--at", at)[:2] for run in (1 if at <= 40 else 2, 3)
        ]
        if command == "status":  # whose first line names the run
            told = [(code, out.partition("\n")[2]) for code, out in told]
        assert told[0] == told[1], (command, at)
    after = shown("status", f"{FORKED}#3", "--at", 51)[1]
    assert "at event 50: search.policy=best_of_k, search.workers=1" in after
    assert f"--at 81: {FORKED}#3 has events 1 to 80" in shown("tree", f"{FORKED}#3", "--at", 81)[2]
