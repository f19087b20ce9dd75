"""Runs that share a provider: they take turns, each where it asks, below their ceilings."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest

from agents.clients.port import CallFailed, Reply, Request
from agents.clients.turns import Provider, Turns
from engine.config import Clients, Limits, OpenAI
from events.bodies import AgentCalled, AgentFailed, Body, RunResumed
from events.reader import LogReader
from tests.agents.dialects import DIALECTS, Dialect
from tests.agents.model_server import Got, Script, running
from tests.engine.model_runs import Ran, Team, config, go_on, search
from tests.engine.outside import ScriptedClient

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
    seen = []
    for attempt in range(3):  # a busy machine paces both by itself
        shared = await _refusals(tmp_path / f"shared{attempt}-", Turns())
        alone = await _refusals(tmp_path / f"alone{attempt}-", None)
        seen.append((shared, alone))
        if shared < alone:
            return
    raise AssertionError(f"refused with shared turns, and without: {seen}")


def _at(url: str) -> Provider:
    return Provider(model="openai:m", settings=(("base_url", url),))


async def test_a_model_has_another_pace_at_another_server() -> None:
    turns, told = Turns(), list[str]()

    async def second() -> None:
        async with turns.turn(_at("http://a"), 0):
            told.append("second")

    async with anyio.create_task_group() as group, turns.turn(_at("http://a"), 0, calls=1):
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        async with turns.turn(_at("http://b"), 0, calls=1):
            told.append("elsewhere")
        told.append("first")
    assert told == ["elsewhere", "first", "second"]


class Busy(ScriptedClient):
    """Counts the requests that it has side by side."""

    now = most = 0

    async def send(self, request: Request) -> Reply:
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.wait_all_tasks_blocked()
        self.now -= 1
        return await super().send(request)


@pytest.mark.parametrize("calls", [1, None])
async def test_the_configured_ceiling_holds(tmp_path: Path, calls: int | None) -> None:
    told = config(attempts=6, workers=6, root_throttle=99)
    told = msgspec.structs.replace(told, limits=Limits(calls=calls))
    client = Busy()
    ran = await search(tmp_path / "log.db", client, told, turns=Turns())
    assert ran.state.stopped == "finished"
    assert (client.most == 1) == (calls == 1)


class Waits(ScriptedClient):
    """Answers nothing before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may, self.asked = anyio.Event(), anyio.Event()

    async def send(self, request: Request) -> Reply:
        self.asked.set()
        await self.may.wait()
        return await super().send(request)


class Refuses(ScriptedClient):
    """Wants to be left alone for a minute."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = anyio.Event()

    async def send(self, request: Request) -> Reply:
        self.asked.set()
        raise CallFailed("rate_limited", "later", retryable=True, retry_after_s=60.0)


@pytest.mark.parametrize(
    ("client", "workers", "doubted"), [(Waits, 2, {"plan": 1}), (Refuses, 1, {})]
)
async def test_a_try_that_only_waited_is_not_counted_as_paid(
    tmp_path: Path, client: type[Waits | Refuses], workers: int, doubted: dict[str, int]
) -> None:
    """For its turn behind another one, or to be made again, when its process ended."""
    path, asked = tmp_path / "log.db", client()
    told = config(attempts=2, workers=workers)
    told = msgspec.structs.replace(told, limits=Limits(calls=1))
    async with anyio.create_task_group() as process:
        process.start_soon(partial(search, path, asked, told, turns=Turns()))
        await asked.asked.wait()
        await _logged(path, AgentCalled, 2)
        process.cancel_scope.cancel()
    ran = await go_on(path, ScriptedClient())
    (first,) = [body for body in ran.bodies if isinstance(body, RunResumed)]
    assert (len(first.unsent), ran.state.doubted_tries) == (1, doubted)
    assert (ran.state.stopped, ran.state.attempts_ended) == ("finished", 2)


async def _logged(path: Path, kind: type[Body], count: int) -> None:
    """Until the log has so many of them."""
    while True:
        with LogReader(path) as reader:
            if sum(isinstance(event.body, kind) for event in reader.events(1)) >= count:
                return
        await anyio.sleep(0.01)


async def test_runs_at_two_servers_do_not_wait_for_each_other(tmp_path: Path) -> None:
    turns, waits = Turns(), Waits()

    async def run(name: str, client: ScriptedClient) -> None:
        server = Clients(openai=OpenAI(base_url=f"http://{name}"))
        told = msgspec.structs.replace(config(), clients=server, limits=Limits(calls=1))
        ran = await search(tmp_path / f"{name}.db", client, told, turns=turns)
        assert ran.state.stopped == "finished"

    with anyio.fail_after(60):
        async with anyio.create_task_group() as runs:
            runs.start_soon(run, "a", waits)
            await anyio.wait_all_tasks_blocked()
            await run("b", ScriptedClient())
            waits.may.set()
