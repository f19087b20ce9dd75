"""Runs whose requests go out as batches, over a real socket, through the official SDK."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from agents.clients.anthropic_batch import AnthropicBatchClient
from agents.prices import price_of
from engine.config import PlannerConfig, Roles
from engine.core.state import State
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    Body,
    CapabilityLearned,
    ReplyDeferred,
    Usage,
)
from events.envelope import Blob, Event
from events.writer import LogWriter
from tests.agents.batch_server import BatchServer, message
from tests.agents.messages_api import error
from tests.agents.model_server import running
from tests.engine.mail_runs import MODEL, bodies_of, config, step
from tests.engine.model_runs import ANNOTATED, candidate
from tests.engine.test_loop import Killed, dies

pytestmark = pytest.mark.anyio

KEY = "sk-secret-0123456789"


def good(params: dict[str, Any]) -> dict[str, Any]:
    (tool,) = params["tools"]
    if tool["name"] == "plan":
        return message("", "plan", advice="Go faster.", annotated_source=ANNOTATED)
    return message("Done.", tool["name"], explanation="Done.", source=candidate("ok", 3))


def errored(kind: str, text: str) -> dict[str, Any]:
    inner = {"type": kind, "message": text}
    return {"type": "errored", "error": {"type": "error", "error": inner}}


class DyingAtTheSecondFailure(LogWriter):
    """Takes what comes before it, then nothing from anybody."""

    left = 1

    def append(self, run_id: int, body: Body, blobs: Iterable[Blob] = ()) -> Event:
        if isinstance(body, AgentFailed):
            self.left -= 1
        if self.left < 0:
            raise Killed
        return super().append(run_id, body, blobs)


async def go(
    path: Path, server: BatchServer, *, writer: type[LogWriter] = LogWriter, **search: Any
) -> State:
    """One process's work, without the key in its log."""
    client = AnthropicBatchClient(api_key=KEY, base_url=server.url)
    try:
        return await step(path, client, config(retry_wait_ms=1, **search), writer=writer)
    finally:
        await client.aclose()
        assert KEY.encode() not in await anyio.Path(path).read_bytes()


async def test_all_that_waits_is_one_batch_and_a_resume_asks_for_it(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with running(BatchServer(good)) as server:
        state = await go(path, server, workers=2, attempts=2)
        assert state.paused == "waiting for 2 replies"
        assert [len(batch) for batch in server.batches] == [2]
        assert (await go(path, server)).paused == "waiting for 2 replies"
        assert len(server.batches) == 1, "nothing is submitted twice"
        server.ended = True
        state = await go(path, server)
        while state.paused:
            state = await go(path, server)
    assert state.stopped == "finished"
    assert [len(batch) for batch in server.batches] == [2, 2]
    names = [item["custom_id"] for batch in server.batches for item in batch]
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    params = server.batches[0][0]["params"]
    assert (params["temperature"], params["model"]) == (0.8, MODEL.partition(":")[2])
    assert "stream" not in params
    bodies = bodies_of(path)
    deferred = [body for body in bodies if isinstance(body, ReplyDeferred)]
    assert [body.batch for body in deferred] == ["msgbatch_0"] * 2 + ["msgbatch_1"] * 2
    replies = [body for body in bodies if isinstance(body, AgentReplied)]
    assert replies[0].usage == Usage(input_tokens=11, output_tokens=42, cache_read_tokens=300)
    assert replies[0].sent["batch"] == "msgbatch_0"
    assert [got.line for got in server.got if KEY not in str(got.headers)] == []


@pytest.mark.parametrize(
    ("result", "word"),
    [
        (lambda _: {"type": "expired"}, "timed_out"),
        (lambda _: {"type": "canceled"}, "server_error"),
        (lambda _: errored("overloaded_error", "Overloaded"), "overloaded"),
        (lambda _: None, "server_error"),
        (lambda _: {"type": "a new word"}, "server_error"),
    ],
)
async def test_what_has_no_message_is_a_new_try(
    tmp_path: Path, result: Callable[[Any], Any], word: str
) -> None:
    path = tmp_path / "log.db"
    results = [good, result]

    def once(params: dict[str, Any]) -> dict[str, Any] | None:
        return results[-1](params) if len(results) == 1 else results.pop()(params)

    async with running(BatchServer(once)) as server:
        server.ended = True
        state = await go(path, server, attempts=1)
    assert state.stopped == "finished"
    bodies = bodies_of(path)
    assert [body.error for body in bodies if isinstance(body, AgentFailed)] == [word]
    tries = [(b.role, b.try_) for b in bodies if isinstance(b, AgentCalled)]
    assert tries == [("plan", 1), ("plan", 2), ("code", 1)]


def without_temperature(params: dict[str, Any]) -> dict[str, Any]:
    if "temperature" in params:
        return errored("invalid_request_error", "temperature is not supported here")
    return good(params)


async def test_a_refused_parameter_is_learned(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    def result(params: dict[str, Any]) -> dict[str, Any]:
        if "temperature" in params:
            return errored("invalid_request_error", "temperature is not supported here")
        return good(params)

    async with running(BatchServer(without_temperature)) as server:
        server.ended = True
        await go(path, server, attempts=1)
    learned = [body for body in bodies_of(path) if isinstance(body, CapabilityLearned)]
    assert [body.param for body in learned] == ["temperature"]
    assert ["temperature" in batch[0]["params"] for batch in server.batches] == [True, False, False]


async def test_a_lesson_is_for_all_of_a_batch_whichever_process_reads_it(tmp_path: Path) -> None:
    """Killed between two results of one batch, which were refused for the same parameter."""
    path = tmp_path / "log.db"

    def result(params: dict[str, Any]) -> dict[str, Any]:
        if "temperature" in params:
            return errored("invalid_request_error", "temperature is not supported here")
        return good(params)

    async with running(BatchServer(without_temperature)) as server:
        assert (await go(path, server, workers=2, attempts=2)).paused == "waiting for 2 replies"
        server.ended = True
        await dies(go(path, server, writer=DyingAtTheSecondFailure))
        assert (await go(path, server)).stopped == "finished"
    bodies = bodies_of(path)
    assert [body.param for body in bodies if isinstance(body, CapabilityLearned)] == ["temperature"]
    failed = [(body.attempt, body.error) for body in bodies if isinstance(body, AgentFailed)]
    assert sorted(failed) == [(1, "capability"), (2, "capability")]
    sent = [["temperature" in item["params"] for item in batch] for batch in server.batches]
    assert sent[0] == [True, True]
    assert not any(any(batch) for batch in sent[1:])


async def test_a_budget_of_thinking_is_learned_as_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    def result(params: dict[str, Any]) -> dict[str, Any]:
        if params.get("thinking", {}).get("type") == "enabled":
            return errored("invalid_request_error", "thinking: use adaptive thinking instead")
        whole = good(params)
        whole["message"]["content"].insert(0, {"type": "thinking", "thinking": "hm"})
        return whole

    plan = PlannerConfig(thinking=2048)
    async with running(BatchServer(result)) as server:
        server.ended = True
        client = AnthropicBatchClient(api_key=KEY, base_url=server.url)
        settings = config(retry_wait_ms=1, attempts=1)
        settings = msgspec.structs.replace(settings, roles=Roles(plan=plan))
        assert (await step(path, client, settings)).stopped == "finished"
        await client.aclose()
    learned = [body for body in bodies_of(path) if isinstance(body, CapabilityLearned)]
    assert [body.param for body in learned] == ["budget_tokens"]
    sent = [batch[0]["params"] for batch in server.batches]
    assert [params.get("thinking") for params in sent] == [
        {"type": "enabled", "budget_tokens": 2048}, {"type": "adaptive"}, None
    ]  # fmt: skip


async def test_a_batch_that_is_refused_is_a_failed_try_of_each(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with running(BatchServer(good)) as server:
        server.refusals = [error(529, "overloaded_error", "busy")]
        state = await go(path, server, workers=2, attempts=2)
        assert state.paused == "waiting for 2 replies"
        assert [len(batch) for batch in server.batches] == [2]
        failed = [body for body in bodies_of(path) if isinstance(body, AgentFailed)]
        assert [body.error for body in failed] == ["overloaded"] * 2
        server.gone = True
        state = await go(path, server)
    assert state.paused is not None
    assert "waiting for 2 replies; batch msgbatch_0 can't be asked for: 404" in state.paused


def test_a_batch_costs_half() -> None:
    whole, half = (
        price_of("anthropic:claude-sonnet-4-5"),
        price_of("anthropic-batch:claude-sonnet-4-5-20250929"),
    )
    assert whole is not None
    assert half is not None
    prices = zip(msgspec.structs.astuple(whole), msgspec.structs.astuple(half), strict=True)
    assert all(a == 2 * b for a, b in prices)
    assert price_of("anthropic-batch:unheard-of") is None
    assert json.loads(msgspec.json.encode(half))["output_usd_micros_per_mtok"] == 7_500_000
