"""A search by mail through the real command line: run, status, resume on another machine."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

from engine.cli.exits import Exit, Failure
from engine.cli.run.confirm import confirm
from engine.config import Budget, Config
from engine.loop.forecast import Forecast
from tests.cli.conftest import SMALL, run_engine
from tests.replayed import replayed

TASK = (SMALL / "task.py").read_text()
MARKED = TASK.replace(
    "        y = x * 2\n", "        # <<<IMPROVE BEGIN>>>\n        y = x * 2\n"
).replace("        y = y + 1\n", "        y = y + 1\n        # <<<IMPROVE END>>>\n")
ANSWERS = {
    "plan": f"---\nserved_by: Ada\n---\nFold the two steps.\n\n```python\n{MARKED}```\n",
    "code": f"Folded.\n\n```python\n{(SMALL / 'fused.py').read_text()}```\n",
}


def answer(box: Path) -> None:
    """Whatever is asked and has no reply yet, as a script would."""
    for request in box.glob("*.json"):
        reply = request.with_suffix(".reply.md")
        if not reply.exists():
            written = reply.with_suffix(".part")
            written.write_text(ANSWERS[json.loads(request.read_text())["role"]])
            written.rename(reply)


@pytest.mark.process
def test_a_search_by_mail(tmp_path: Path) -> None:
    log, box = tmp_path / "log.db", tmp_path / "box"
    done = run_engine(
        "run", SMALL / "task.py", "--model", f"mailbox:{box}", "--device", "cpu",
        "--attempts", 1, "--log", log, "--json", "--display", "plain",
    )  # fmt: skip
    assert done.returncode == Exit.PAUSED, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["status"], summary["reason"]) == ("paused", "waiting for 1 reply")
    (awaited,) = summary["awaited"]
    asked = f"{box}/{awaited['name']}.md"
    assert Path(asked).is_file()
    assert f"paused: waiting for 1 reply\n  {asked}  (plan of attempt 1)\n" in done.stderr
    assert f"Go on with: engine resume {log}\n" in done.stderr

    status = run_engine("status", log).stdout
    assert "status     paused (waiting for 1 reply)\n" in status
    assert f"awaited    {asked}  (plan of attempt 1)\n" in status

    moved = shutil.move(box, tmp_path / "moved")
    lost = run_engine("resume", log)
    assert (lost.returncode, lost.stdout) == (Exit.USAGE, "")
    assert f"the run's mailbox {box} is not here" in lost.stderr
    assert "--mailbox DIR" in lost.stderr

    ended = threading.Event()

    def answering() -> None:
        while not ended.wait(0.05):
            answer(Path(moved))

    person = threading.Thread(target=answering)
    person.start()
    done = run_engine("resume", log, "--mailbox", moved, "--wait", 60, "--json")
    ended.set()
    person.join()
    summary = json.loads(done.stdout)
    assert (summary["status"], summary["correct"], summary["awaited"]) == ("finished", 1, [])
    assert summary["uncounted_calls"] == 2
    whole = replayed(log)
    assert (whole.check.problems, whole.report.difference) == ([], None)


def test_a_dollar_budget_means_nothing_to_a_mailbox() -> None:
    config = Config(model="mailbox:box", budget=Budget(usd=1.0))
    with pytest.raises(Failure, match="can't be kept with a mailbox"):
        confirm(config, False, Forecast(attempts=30, roles=[]), yes=True)
