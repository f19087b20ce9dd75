"""A search by mail is killed at its worst moments: nothing is lost, nothing is asked twice."""

from __future__ import annotations

import signal
from multiprocessing.context import ForkServerContext
from pathlib import Path

import anyio
import pytest

from agents.clients.mailbox import MailboxClient
from events.bodies import AgentReplied
from tests.engine.mail_runs import answer_all, bodies_of, config, step
from tests.faults.mailing import search

pytestmark = [pytest.mark.anyio, pytest.mark.process]


def files(box: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in box.iterdir()}


async def test_a_kill_loses_nothing_and_asks_nothing_twice(
    tmp_path: Path, processes: ForkServerContext, anyio_backend: str
) -> None:
    path, box = tmp_path / "log.db", tmp_path / "box"

    async def killed(point: str) -> None:
        process = processes.Process(target=search, args=(path, box, point, anyio_backend))
        process.start()
        await anyio.to_thread.run_sync(process.join)
        assert process.exitcode == -signal.SIGKILL

    await killed("written")
    written = files(box)
    assert len(written) == 2
    state = await step(path, MailboxClient(box), config())
    assert state.paused == "waiting for 1 reply"
    assert files(box) == written
    assert answer_all(box) == 1
    await killed("found")
    state = await step(path, MailboxClient(box), config())
    assert state.paused == "waiting for 1 reply", "the code, once the plan is taken"
    await killed("written")
    assert answer_all(box) == 1
    state = await step(path, MailboxClient(box), config())
    assert state.stopped == "finished"
    assert len([body for body in bodies_of(path) if isinstance(body, AgentReplied)]) == 2
    assert len(files(box)) == 6
