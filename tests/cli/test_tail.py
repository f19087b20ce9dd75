"""``engine tail``: the newest events, and those that come."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from engine.cli.main import cli
from events.bodies import StopRequested
from events.envelope import Blob
from events.errors import RunUnknown
from events.writer import LogWriter
from tests.cli.conftest import start_engine

LOG = Path(__file__).parents[1] / "histories" / "0.1" / "stark_softmax_h200.db"


def tail(*args: object) -> list[str]:
    result = CliRunner().invoke(cli, ["tail", *map(str, args)])
    assert result.exit_code == 0, result
    return result.stdout.splitlines()


def test_the_newest_events_in_words_and_as_json() -> None:
    assert len(tail(LOG)) == 10
    last = tail(LOG, "-n", 1)
    assert "RunStopped           finished: attempts, best" in last[0]
    records = [json.loads(line) for line in tail(LOG, "--json", "-n", 1000)]
    assert [record["seq"] for record in records] == list(range(1, 156))
    replied = next(record for record in records if record["type"] == "AgentReplied")
    assert replied["body"]["served_by"] == "playbook"
    assert [blob["name"] for blob in replied["blobs"]] == ["reply", "tool_input"]
    assert tail(LOG, "-n", 0) == []
    assert len(tail(LOG, "--follow", "-n", 3)) == 3, "nobody writes: it does not wait"


@pytest.mark.process
@pytest.mark.anyio
async def test_a_follower_sees_what_comes_and_ends_with_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path) as log:
        one, two = log.create_run("aa"), log.create_run("bb")
        for run in (one, two):
            await log.durable(log.append(run, StopRequested(source="first")))
        follower = start_engine("tail", path, "-f", "--json", stdout=subprocess.PIPE)
        only_two = start_engine("tail", f"{path}#2", "-f", stdout=subprocess.PIPE)
        assert follower.stdout is not None
        first = await anyio.to_thread.run_sync(follower.stdout.readline)
        assert json.loads(first)["run_id"] == 1
        for run in (two, one):
            event = log.append(run, StopRequested(source="later"), [Blob.text("text", "x")])
            await log.durable(event)
    out, _ = await anyio.to_thread.run_sync(follower.communicate)
    assert [json.loads(line)["run_id"] for line in out.splitlines()] == [2, 2, 1]
    out, _ = await anyio.to_thread.run_sync(only_two.communicate)
    assert [line.split()[-1] for line in out.splitlines()] == ["first", "later"]
    assert (follower.returncode, only_two.returncode) == (0, 0)


def test_a_run_that_is_not_there() -> None:
    result = CliRunner().invoke(cli, ["tail", f"{LOG}#7"])
    assert isinstance(result.exception.__cause__, RunUnknown)  # type: ignore[union-attr]
