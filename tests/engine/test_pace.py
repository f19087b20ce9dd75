"""Runs that share a provider with a token bucket: taking turns, they are refused less."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from agents.clients.turns import Turns
from events.bodies import AgentFailed
from tests.agents.dialects import DIALECTS, Dialect
from tests.agents.model_server import Got, Script, running
from tests.engine.model_runs import Ran, Team, config, search

pytestmark = pytest.mark.anyio


(OPENAI,) = [api for api in DIALECTS if api.name == "openai"]


class Bucket(Team):
    """Gives out 40 replies a second, three at once; who comes too early gets a 429."""

    def __init__(self, api: Dialect) -> None:
        super().__init__(api)
        self._level, self._at = 3.0, time.monotonic()
        self.refused = 0

    def script_for(self, got: Got) -> Script:
        now = time.monotonic()
        self._level = min(3.0, self._level + 40 * (now - self._at))
        self._at = now
        if self._level < 1:
            self.refused += 1
            return self.api.error(429, "slow down", retry_after="0.02")
        self._level -= 1
        return super().script_for(got)


async def _refusals(path: Path, turns: Turns | None) -> int:
    told = config(attempts=6, workers=6, root_throttle=None, call_tries=100)
    ran: list[Ran] = []

    async def one(number: int) -> None:
        client = OPENAI.client(server.url)
        ran.append(
            await search(path.with_name(f"{path.name}{number}.db"), client, told, turns=turns)
        )
        await client.aclose()

    async with running(Bucket(OPENAI)) as server, anyio.create_task_group() as runs:
        runs.start_soon(one, 1)
        runs.start_soon(one, 2)
    assert [each.state.stopped for each in ran] == ["finished", "finished"]
    logged = [body for each in ran for body in each.bodies if isinstance(body, AgentFailed)]
    assert len(logged) == server.refused
    return server.refused


async def test_runs_that_share_their_turns_are_refused_less_often(tmp_path: Path) -> None:
    shared = await _refusals(tmp_path / "shared", Turns())
    alone = await _refusals(tmp_path / "alone", None)
    assert shared < alone
