"""A provider that is down: the run asks it a few times, pauses, and loses nothing."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

from agents.clients.port import CallFailed, Client, Reply, Request
from events.bodies import AgentFailed, AttemptAbandoned, RunPaused
from tests.engine.model_runs import config, go_on, search
from tests.engine.outside import ScriptedClient

pytestmark = pytest.mark.anyio


class Down(ScriptedClient):
    """Answers ``first`` requests, then none."""

    def __init__(self, first: int, error: str = "overloaded") -> None:
        super().__init__()
        self.first, self.error, self.refused = first, error, 0

    async def send(self, request: Request) -> Reply:
        if len(self.sent) < self.first:
            return await super().send(request)
        self.refused += 1
        await anyio.lowlevel.checkpoint()
        raise CallFailed(self.error, "down for all", retryable=True)


WORKERS, MOST = 6, 8


async def _paused(path: Path, client: Client) -> str:
    told = config(
        attempts=12, workers=WORKERS, root_throttle=99, call_tries=50, outage_failures=MOST
    )
    ran = await search(path, client, told)
    assert isinstance(ran.bodies[-1], RunPaused)
    return ran.bodies[-1].reason


@pytest.mark.parametrize("first", [0, 5])
async def test_all_calls_together_find_it_out(tmp_path: Path, first: int) -> None:
    client = Down(first)
    reason = await _paused(tmp_path / "log.db", client)
    told = re.fullmatch(
        r"openai:test-model is down: (\d+) tries in a row failed, the last: down for all", reason
    )
    assert told is not None
    # (One that failed beside the last good ones is not of that row.)
    assert MOST <= int(told[1]) <= client.refused
    # What was under way when the last one came is heard out.
    assert client.refused < MOST + 2 * WORKERS

    ran = await go_on(tmp_path / "log.db", ScriptedClient())
    assert (ran.state.stopped, ran.state.attempts_ended) == ("finished", 12)
    assert not any(isinstance(body, AttemptAbandoned) for body in ran.bodies)
    failed = [body for body in ran.bodies if isinstance(body, AgentFailed)]
    assert len(failed) == client.refused


class Flaky(ScriptedClient):
    """Fails every other request."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def send(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked % 2:
            raise CallFailed("server_error", "not now", retryable=True)
        return await super().send(request)


async def test_one_that_answers_now_and_then_is_not_down(tmp_path: Path) -> None:
    told = config(attempts=4, outage_failures=2)
    ran = await search(tmp_path / "log.db", Flaky(), told)
    assert ran.state.stopped == "finished"
