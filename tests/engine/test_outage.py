"""A provider that is down: the run asks it a few times, pauses, and loses nothing."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import msgspec
import pytest

from agents.clients.port import CallFailed, Client, Reply, Request
from engine.config import PlannerConfig
from events.bodies import AgentCalled, AgentFailed, AttemptAbandoned, RunPaused
from tests.agents.dialects import DIALECTS
from tests.agents.model_server import running
from tests.engine.model_runs import MODEL, Team, config, go_on, search
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


AWAY = "openai:away"


async def test_a_planner_that_is_there_stands_in_for_one_that_is_not(tmp_path: Path) -> None:
    (openai,) = [api for api in DIALECTS if api.name == "openai"]
    told = config(attempts=6, call_tries=3)
    plan = PlannerConfig(temperature=0.8, models=[AWAY, MODEL], reward_per="token")
    told = msgspec.structs.replace(told, roles=msgspec.structs.replace(told.roles, plan=plan))
    async with running(Team(openai)) as team:
        # Nobody listens at port 9.
        here, away = openai.client(team.url), openai.client("http://127.0.0.1:9")
        ran = await search(tmp_path / "log.db", here, told, more={AWAY: away})
        await here.aclose()
        await away.aclose()
    assert (ran.state.stopped, ran.state.attempts_ended) == ("finished", 6)
    assert not any(isinstance(body, RunPaused | AttemptAbandoned) for body in ran.bodies)
    failed = [body for body in ran.bodies if isinstance(body, AgentFailed)]
    assert {(body.role, body.error) for body in failed} == {("plan", "connection")}
    called = [body for body in ran.bodies if isinstance(body, AgentCalled) and body.role == "plan"]
    assert [body.call for body in called if body.model == AWAY] == [body.call for body in failed]
    # Its tries, and one more when three attempts had ended.
    assert len(failed) == 3 + 1
    stood_in = [body.attempt for body in called if body.pick and body.pick.down == [AWAY]]
    assert stood_in == [1, 2, 3, 4, 5, 6]
