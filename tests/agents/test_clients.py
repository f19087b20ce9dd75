"""What every client of an HTTP API does, against a server on a real socket, on both backends."""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from time import time
from typing import Any

import anyio
import msgspec
import pytest

from agents.clients.port import CallFailed, CapabilityMissing, Client, Part, Reply, Request, Tool
from agents.replies.parse import Parsed, Rejected, parse
from events.bodies import CallParams

from .dialects import CLOUDS, DIALECTS, KEY, Dialect, tool
from .model_server import Cut, ModelServer, Script, Stall, chunk, response, serve
from .sources import KERNEL, TASK

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("api", [*DIALECTS, *CLOUDS], ids=lambda api: str(api.name)),
]

TOOL = Tool(
    name="code",
    description="Hand it in.",
    schema={"type": "object", "properties": {"source": {"type": "string"}}, "required": []},
)
REQUEST = Request(
    role="code",
    model="test-model",
    parts=(
        Part(name="system", text="You are fast.", stable=True),
        Part(name="example", text="Like so.", stable=True),
        Part(name="task", text="This one.", stable=True),
        Part(name="selected", text="From here."),
        Part(name="instruction", text="Go."),
    ),
    params=CallParams(temperature=0.1, effort="low", max_tokens=1234),
    tool=TOOL,
    node_source=TASK,
    visit=0,
    timeout_s=20.0,
)
ANSWER = tool("code", explanation="é", source=KERNEL)


@pytest.fixture(autouse=True)
def _bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)


@asynccontextmanager
async def talking(api: Dialect, *scripts: Script) -> AsyncIterator[tuple[Client, ModelServer]]:
    async with serve(*scripts) as server:
        client = api.client(server.url)
        try:
            yield client, server
        finally:
            await client.aclose()


async def reply_to(api: Dialect, script: Script) -> Reply:
    async with talking(api, script) as (client, _):
        return await client.send(REQUEST)


async def failures_of(api: Dialect, *scripts: Script) -> list[CallFailed]:
    """How a call for each of the scripts failed."""
    failures: list[CallFailed] = []
    async with talking(api, *scripts) as (client, server):
        for _ in scripts:
            with pytest.raises(CallFailed) as info:
                await client.send(REQUEST)
            failures.append(info.value)
        assert len(server.got) == len(scripts), "a client must not retry"
    for failed in failures:
        shown = "".join(traceback.format_exception(failed)) + repr(failed.__context__)
        assert KEY not in shown + repr(client)
        assert "\n" not in failed.message
    return failures


async def failure_of(api: Dialect, script: Script) -> CallFailed:
    (failed,) = await failures_of(api, script)
    return failed


async def test_a_tool_answer(api: Dialect) -> None:
    async with talking(api, api.reply("Here:", ANSWER, stop="tool_use", piece=7)) as (client, got):
        reply = await client.send(REQUEST)
    assert (reply.text, reply.stop_reason) == ("Here:", "tool_use")
    assert reply.tool_input == {"explanation": "é", "source": KERNEL}
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 42)
    assert reply.usage.cache_read_tokens == 300
    parsed = parse("code", reply, TASK)
    assert isinstance(parsed, Parsed)
    assert parsed.via == "tool"
    wire = api.wire(got.got[0])
    assert wire.model == "test-model"
    assert wire.system == "You are fast."
    assert wire.user == "Like so.\n\nThis one.\n\nFrom here.\n\nGo."
    assert (wire.temperature, wire.max_tokens, wire.tool) == (0.1, 1234, "code")
    assert wire.key == KEY
    assert KEY not in json.dumps(reply.sent)


async def test_text_with_fenced_code(api: Dialect) -> None:
    reply = await reply_to(api, api.reply(f"Why.\n```python\n{KERNEL}```", "Done."))
    assert reply.tool_input is None
    assert reply.text.endswith("```\n\nDone.")
    result = parse("code", reply, TASK)
    assert isinstance(result, Parsed)
    assert (result.source, result.via) == (KERNEL, "fence")


async def test_half_a_surrogate_pair_can_be_logged(api: Dialect) -> None:
    answer = {"name": "code", "json": '{"source": "\\ud83d\\ude00 \\ud83d", "n": [1]}'}
    reply = await reply_to(api, api.reply("\ud83d!", answer))
    assert reply.tool_input == {"source": "\U0001f600 \ufffd", "n": [1]}
    assert reply.text == "\ufffd!"


async def test_other_tools_are_passed_over(api: Dialect) -> None:
    other = {"name": "other", "json": '{"source": "x"}'}
    reply = await reply_to(api, api.reply(other, ANSWER, ANSWER))
    assert reply.tool_input == {"explanation": "é", "source": KERNEL}
    assert reply.text == ""


@pytest.mark.parametrize(
    ("blocks", "stop"),
    [
        ([{"name": "code", "json": '{"source": "import'}], "tool_use"),
        ([{"name": "code", "json": '{"source": "class ModelNew'}], "max_tokens"),
        ([{"name": "code", "json": "[1]"}], "tool_use"),
        ([{"name": "code", "json": "[" * 100_000}], "tool_use"),
        ([], "end_turn"),
        ([], "refusal"),
    ],
)
async def test_unusable_answers_are_replies(api: Dialect, blocks: list[Any], stop: str) -> None:
    reply = await reply_to(api, api.reply(*blocks, stop=stop, piece=1_000_000))
    assert (reply.tool_input, reply.stop_reason) == (None, stop)
    assert reply.usage is not None
    assert reply.usage.output_tokens == 42
    assert [call["arguments"] for call in reply.others] == [block["json"] for block in blocks]
    result = parse("code", reply, TASK)
    assert isinstance(result, Rejected)
    assert ("cut off" in result.reason) == (stop == "max_tokens")


STATUSES = [
    (400, "max_tokens: 9 is too large", "bad_request", False),
    (400, "temperature: range: 0..1", "bad_request", False),
    (400, "prompt is too long: 9 tokens > 8", "too_large", False),
    (401, "invalid key " + KEY, "unauthorized", False),
    (402, "no credit", "unauthorized", False),
    (403, "no", "unauthorized", False),
    (404, "model: test-model", "bad_request", False),
    (408, "slow", "timed_out", True),
    (413, "big", "too_large", False),
    (429, "slow\ndown", "rate_limited", True),
    (500, "oops", "server_error", True),
    (503, "oops", "server_error", True),
    (504, "oops", "server_error", True),
    (529, "Overloaded", "overloaded", True),
]


async def test_errors_have_the_ports_words(api: Dialect) -> None:
    scripts = [api.error(status, text) for status, text, *_ in STATUSES]
    failures = await failures_of(api, *scripts)
    for (status, text, word, retryable), failed in zip(STATUSES, failures, strict=True):
        assert (failed.error, failed.retryable) == (word, retryable), status
        assert failed.message.startswith(f"{status}: {text.split()[0]}")
        assert (api.hint in failed.message) == (status in (401, 403))


async def test_retry_after_is_passed_on(api: Dialect) -> None:
    headers = [
        {"retry_after": "7"},
        {"retry_after": "0.5"},
        {"retry_after_ms": "1500", "retry_after": "9"},
        {"retry_after": "soon"},
        {},
        {"retry_after": formatdate(time() + 7200, usegmt=True)},
    ]
    scripts = [api.error(429, "slow down", **given) for given in headers]
    *waits, at_a_date = [failed.retry_after_s for failed in await failures_of(api, *scripts)]
    assert waits == [7, 0.5, 1.5, None, None]
    assert at_a_date is not None
    assert 3600 <= at_a_date <= 7200


async def test_an_error_page_that_is_no_json(api: Dialect) -> None:
    failed = await failure_of(api, response(502, b"<html>Bad gateway</html>", "text/html"))
    assert (failed.error, failed.retryable) == ("server_error", True)
    assert "Bad gateway" in failed.message


async def test_a_page_for_people_is_said_to_be_one(api: Dialect) -> None:
    page = b"\n<!DOCTYPE html><html><head><title>Sign in &amp; go</title></head></html>"
    for kind in ("text/html", "text/event-stream"):
        if api.name == "bedrock":
            pytest.skip("its stream has frames")
        failed = await failure_of(api, response(200, page, kind))
        assert (failed.error, failed.retryable) == ("connection", True)
        assert "an HTML page titled 'Sign in & go'" in failed.message


async def test_what_stands_between_events_is_skipped(api: Dialect) -> None:
    if api.name == "bedrock":
        pytest.skip("its stream has frames")
    noise = chunk(b"data:\n\ndata: ping\n\n: comment\n\ndata: []\n\nretry: 5\n\n")
    head, *events = api.reply("Hello")
    script = [head, *(each for event in events[:-1] for each in (noise, event)), events[-1]]
    assert (await reply_to(api, script)).text == "Hello"


async def test_an_error_in_mid_stream_is_not_waited_behind(api: Dialect) -> None:
    failed = await failure_of(api, [*api.broken("Overloaded"), Stall()])
    assert (failed.error, failed.retryable, failed.message) == ("overloaded", True, "Overloaded")


@pytest.mark.parametrize("end", [True, False])
async def test_a_stream_that_is_cut(api: Dialect, end: bool) -> None:
    failed = await failure_of(api, [*api.begun("Hello"), b"0\r\n\r\n" if end else Cut()])
    assert (failed.error, failed.retryable) == ("connection", True)


async def test_an_event_that_makes_no_sense(api: Dialect) -> None:
    nonsense = [b"{oops", b"[]", b'{"type": 1, "choices": [7]}', b"[" * 100_000]
    scripts: list[Script] = [
        [*api.begun("Hello"), chunk(b"data: %s\n\n" % data), b"0\r\n\r\n"] for data in nonsense
    ]
    for failed in await failures_of(api, *scripts):
        assert (failed.error, failed.retryable) == ("connection", True)


async def test_bytes_that_are_no_utf_8_are_replaced(api: Dialect) -> None:
    if api.name == "bedrock":
        pytest.skip("its frames have checksums")
    script = [
        step.replace(b"Hello", b"Hel\xff\xc3") if isinstance(step, bytes) else step
        for step in api.reply("Hello", piece=5)
    ]
    assert (await reply_to(api, script)).text == "Hel��"


@pytest.mark.parametrize("begun", [False, True])
async def test_a_stall_times_out_and_hangs_up(api: Dialect, begun: bool) -> None:
    request = msgspec.structs.replace(REQUEST, timeout_s=0.3)
    script = [*(api.begun("Hello") if begun else []), Stall()]
    async with talking(api, script) as (client, server):
        with pytest.raises(CallFailed) as info:
            await client.send(request)
        assert (info.value.error, info.value.retryable) == ("timed_out", True)
        if server.got and server.stalled.is_set():
            words = "chunks had come, the last one" if begun else "no first byte"
            assert words in info.value.message
        if server.got:  # else the deadline came before the connection, on a busy machine
            with anyio.fail_after(10):
                await server.hung_up.wait()


async def test_nobody_listens(api: Dialect) -> None:
    async with serve([]) as server:
        url = server.url
    client = api.client(url)
    with pytest.raises(CallFailed, match=r"connection .*failed: ") as info:
        await client.send(REQUEST)
    await client.aclose()
    assert (info.value.error, info.value.retryable) == ("connection", True)


async def test_a_cancelled_call_hangs_up_and_the_client_lives_on(api: Dialect) -> None:
    stalled = [*api.begun("Hello"), Stall()]
    async with talking(api, stalled, api.reply("Again")) as (client, server):
        async with anyio.create_task_group() as group:
            group.start_soon(client.send, REQUEST)
            await server.stalled.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await server.hung_up.wait()
        assert (await client.send(REQUEST)).text == "Again"
    assert len(server.got) == 2


async def test_calls_overlap(api: Dialect) -> None:
    texts: list[str] = []

    async def call(client: Client) -> None:
        texts.append((await client.send(REQUEST)).text)

    async with (
        talking(api, api.reply("Hello")) as (client, server),
        anyio.create_task_group() as group,
    ):
        for _ in range(8):
            group.start_soon(call, client)
    assert texts == ["Hello"] * 8
    assert len(server.got) == 8


async def test_a_closed_client_may_be_used_again(api: Dialect) -> None:
    async with talking(api, api.reply("Hello")) as (client, _):
        await client.send(REQUEST)
        await client.aclose()
        await client.aclose()
        assert (await client.send(REQUEST)).text == "Hello"


@pytest.mark.parametrize("param", ["temperature", "effort", "tool_choice"])
async def test_a_refused_parameter_is_a_lesson(api: Dialect, param: str) -> None:
    async with talking(api, api.error(400, f"{param} is not supported here")) as (client, server):
        with pytest.raises(CapabilityMissing) as info:
            await client.send(REQUEST)
        assert info.value.param == param
        # Once it is not sent any more, the same words are an error.
        request = msgspec.structs.replace(REQUEST, refused=frozenset({param}))
        with pytest.raises(CallFailed, match="400: "):
            await client.send(request)
    first, second = (set(got.body) for got in server.got)
    assert len(first - second) == 1
    assert second <= first
