"""The Anthropic client against a server on a real socket, on both backends."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from time import time
from typing import Any

import anyio
import msgspec
import pytest

from agents.clients.anthropic import AnthropicClient
from agents.clients.open import KeyMissing, open_client
from agents.clients.port import CallFailed, CapabilityMissing, Part, Reply, Request, Tool
from agents.parse import Parsed, Rejected, parse
from events.bodies import CallParams, Usage

from .messages_server import Cut, MessagesServer, Stall, error, events, message, serve
from .sources import KERNEL, TASK

KEY = "sk-ant-secret-0123456789"
TOOL = Tool(
    name="code",
    description="Hand it in.",
    schema={"type": "object", "properties": {"source": {"type": "string"}}, "required": []},
)
REQUEST = Request(
    role="code",
    model="claude-test",
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
ANSWER = {"name": "code", "json": json.dumps({"explanation": "é", "source": KERNEL})}


@asynccontextmanager
async def talking(*scripts: Any) -> AsyncIterator[tuple[AnthropicClient, MessagesServer]]:
    async with serve(*scripts) as server:
        client = AnthropicClient(api_key=KEY, base_url=server.url)
        try:
            yield client, server
        finally:
            await client.aclose()


async def reply_to(script: Any, request: Request = REQUEST) -> Reply:
    async with talking(script) as (client, _):
        return await client.send(request)


async def failure_of(script: Any, request: Request = REQUEST) -> CallFailed:
    async with talking(script) as (client, _):
        with pytest.raises(CallFailed) as info:
            await client.send(request)
    shown = "".join(traceback.format_exception(info.value)) + repr(info.value.__context__)
    assert KEY not in shown
    assert KEY not in repr(client)
    assert "\n" not in info.value.message
    return info.value


@pytest.mark.anyio
async def test_a_tool_answer_and_what_went_over_the_wire() -> None:
    async with talking(events(*message("Here:", ANSWER, stop="tool_use"))) as (client, server):
        reply = await client.send(REQUEST)
    assert reply == Reply(
        text="Here:",
        tool_input={"explanation": "é", "source": KERNEL},
        usage=Usage(
            input_tokens=11, output_tokens=42, cache_read_tokens=300, cache_write_tokens=20
        ),
        stop_reason="tool_use",
        served_by="claude-test-1",
        sent={
            "model": "claude-test",
            "max_tokens": 1234,
            "tools": ["code"],
            "tool_choice": {"type": "tool", "name": "code"},
            "output_config": {"effort": "low"},
            "temperature": 0.1,
            "stream": True,
        },
    )
    assert isinstance(parse("code", reply, TASK), Parsed)
    (got,) = server.got
    assert got.line.startswith("POST /v1/messages ")
    assert KEY in got.headers.get("x-api-key", got.headers.get("authorization", ""))
    assert got.body == {
        "model": "claude-test",
        "max_tokens": 1234,
        "system": [{"type": "text", "text": "You are fast."}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Like so."},
                    {
                        "type": "text",
                        "text": "This one.",
                        "cache_control": {"type": "ephemeral"},
                    },
                    {"type": "text", "text": "From here."},
                    {"type": "text", "text": "Go."},
                ],
            }
        ],
        "tools": [{"name": "code", "description": "Hand it in.", "input_schema": TOOL.schema}],
        "tool_choice": {"type": "tool", "name": "code"},
        "output_config": {"effort": "low"},
        "temperature": 0.1,
        "stream": True,
    }


@pytest.mark.anyio
async def test_refused_parameters_are_not_sent() -> None:
    request = msgspec.structs.replace(
        REQUEST, refused=frozenset({"temperature", "effort", "tool_choice"})
    )
    async with talking(events(*message("x"))) as (client, server):
        reply = await client.send(request)
    for name in ("temperature", "output_config", "tool_choice"):
        assert name not in server.got[0].body
        assert name not in reply.sent
    assert server.got[0].body["tools"]


@pytest.mark.anyio
async def test_parameters_that_nobody_asked_for_are_not_sent() -> None:
    request = msgspec.structs.replace(REQUEST, params=CallParams(max_tokens=5))
    async with talking(events(*message("x"))) as (client, server):
        await client.send(request)
    assert not {"temperature", "output_config"} & set(server.got[0].body)


@pytest.mark.anyio
async def test_text_with_fenced_code() -> None:
    reply = await reply_to(events(*message(f"Why.\n```python\n{KERNEL}```", "Done.")))
    assert reply.tool_input is None
    assert reply.text.endswith("```\n\nDone.")
    result = parse("code", reply, TASK)
    assert isinstance(result, Parsed)
    assert (result.source, result.via) == (KERNEL, "fence")


@pytest.mark.anyio
async def test_half_a_surrogate_pair_can_be_logged() -> None:
    answer = {"name": "code", "json": '{"source": "\\ud83d\\ude00 \\ud83d", "n": [1]}'}
    reply = await reply_to(events(*message("\ud83d!", answer)))
    assert reply.tool_input == {"source": "\U0001f600 \ufffd", "n": [1]}
    assert reply.text == "\ufffd!"


def test_a_password_in_the_url_is_not_shown() -> None:
    shown = repr(AnthropicClient(api_key=KEY, base_url="https://me:geheim@host/v"))
    assert shown == "AnthropicClient(base_url='https://…@host/v')"


@pytest.mark.anyio
async def test_thinking_and_other_tools_are_passed_over() -> None:
    blocks = message({"name": "other", "json": "{}"}, ANSWER)
    thinking = {
        "type": "content_block_start",
        "index": 9,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    }
    delta = {
        "type": "content_block_delta",
        "index": 9,
        "delta": {"type": "thinking_delta", "thinking": "hm"},
    }
    reply = await reply_to(events(blocks[0], thinking, delta, *blocks[1:]))
    assert reply.tool_input == {"explanation": "é", "source": KERNEL}
    assert reply.text == ""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("blocks", "stop"),
    [
        ([{"name": "code", "json": '{"source": "import'}], "tool_use"),
        ([{"name": "code", "json": '{"source": "class ModelNew'}], "max_tokens"),
        ([{"name": "code", "json": "[1]"}], "tool_use"),
        ([], "end_turn"),
        ([], "refusal"),
    ],
)
async def test_unusable_answers_are_replies(blocks: list[Any], stop: str) -> None:
    reply = await reply_to(events(*message(*blocks, stop=stop)))
    assert (reply.tool_input, reply.stop_reason) == (None, stop)
    assert reply.usage.output_tokens == 42
    assert reply.text == (blocks[0]["json"] if blocks else "")
    result = parse("code", reply, TASK)
    assert isinstance(result, Rejected)
    assert ("cut off" in result.reason) == (stop == "max_tokens")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("`temperature` is deprecated for this model.", "temperature"),
        ("temperature: Extra inputs are not permitted", "temperature"),
        ("This model does not support the effort parameter.", "effort"),
        ("output_config: Extra inputs are not permitted", "effort"),
        ('tool_choice: type "tool" and "any" are not supported for this model.', "tool_choice"),
        ("Thinking may not be enabled when tool_choice forces tool use.", "tool_choice"),
    ],
)
async def test_a_refused_parameter_is_a_lesson(text: str, param: str) -> None:
    async with talking(error(400, "invalid_request_error", text)) as (client, server):
        with pytest.raises(CapabilityMissing) as info:
            await client.send(REQUEST)
        assert (info.value.param, info.value.message) == (param, text)
        # Once it is not sent any more, the same words are an error.
        request = msgspec.structs.replace(REQUEST, refused=frozenset({param}))
        with pytest.raises(CallFailed, match="400: "):
            await client.send(request)
    assert len(server.got) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "kind", "text", "word", "retryable"),
    [
        (400, "invalid_request_error", "max_tokens: 9 > 8", "bad_request", False),
        (400, "invalid_request_error", "temperature: range: 0..1", "bad_request", False),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8", "too_large", False),
        (401, "authentication_error", "invalid x-api-key " + KEY, "unauthorized", False),
        (402, "billing_error", "no credit", "unauthorized", False),
        (403, "permission_error", "no", "unauthorized", False),
        (404, "not_found_error", "model: claude-test", "bad_request", False),
        (408, "timeout_error", "slow", "timed_out", True),
        (413, "request_too_large", "big", "too_large", False),
        (429, "rate_limit_error", "slow\ndown", "rate_limited", True),
        (500, "api_error", "oops", "server_error", True),
        (503, "api_error", "oops", "server_error", True),
        (504, "timeout_error", "oops", "server_error", True),
        (529, "overloaded_error", "Overloaded", "overloaded", True),
    ],
)
async def test_errors_have_the_ports_words(
    status: int, kind: str, text: str, word: str, retryable: bool
) -> None:
    async with talking(error(status, kind, text)) as (client, server):
        with pytest.raises(CallFailed) as info:
            await client.send(REQUEST)
    assert (info.value.error, info.value.retryable) == (word, retryable)
    assert info.value.message.startswith(f"{status}: {text.split()[0]}")
    assert KEY not in info.value.message
    assert len(server.got) == 1, "the SDK must not retry"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry_after": "7"}, 7, 7),
        ({"retry_after": "0.5"}, 0.5, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5, 1.5),
        ({"retry_after": formatdate(time() + 7200, usegmt=True)}, 3600, 7200),
        ({"retry_after": "soon"}, None, None),
        ({}, None, None),
    ],
)
async def test_retry_after_is_passed_on(
    headers: dict[str, str], low: float | None, high: float | None
) -> None:
    failed = await failure_of(error(429, "rate_limit_error", "slow down", **headers))
    if low is None or high is None:
        assert failed.retry_after_s is None
    else:
        assert failed.retry_after_s is not None
        assert low <= failed.retry_after_s <= high


@pytest.mark.anyio
async def test_an_error_page_that_is_no_json() -> None:
    page = b"<html>Bad gateway</html>"
    head = b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\nconnection: close\r\n"
    script = [head + b"content-length: %d\r\n\r\n" % len(page) + page]
    failed = await failure_of(script)
    assert (failed.error, failed.retryable) == ("server_error", True)


@pytest.mark.anyio
async def test_an_error_in_mid_stream() -> None:
    start = message("Hello")[:4]
    sudden = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failed = await failure_of(events(*start, sudden))
    assert (failed.error, failed.retryable, failed.message) == ("overloaded", True, "Overloaded")


@pytest.mark.anyio
async def test_a_server_that_says_nothing_more_after_an_error_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.clients.anthropic._DRAIN_S", 0.1)
    sudden = {"type": "error", "error": {"type": "api_error", "message": "oops"}}
    failed = await failure_of([*events(sudden, end=False), Stall()])
    assert (failed.error, failed.retryable) == ("server_error", True)


@pytest.mark.anyio
@pytest.mark.parametrize("end", [True, False])
async def test_a_stream_that_is_cut(end: bool) -> None:
    script = events(*message("Hello " * 50)[:9], end=end)
    failed = await failure_of(script if end else [*script, Cut()])
    assert (failed.error, failed.retryable) == ("connection", True)


@pytest.mark.anyio
async def test_an_event_that_is_no_json() -> None:
    script = events(*message("Hello")[:3], end=False)
    broken = b"event: content_block_delta\ndata: {oops\n\n"
    failed = await failure_of([*script, b"%x\r\n%s\r\n" % (len(broken), broken), b"0\r\n\r\n"])
    assert (failed.error, failed.retryable) == ("connection", True)


@pytest.mark.anyio
@pytest.mark.parametrize("before", [[], events(*message("Hello")[:4], end=False)])
async def test_a_stall_times_out(before: list[Any]) -> None:
    request = msgspec.structs.replace(REQUEST, timeout_s=0.3)
    failed = await failure_of([*before, Stall()], request)
    assert (failed.error, failed.retryable) == ("timed_out", True)


@pytest.mark.anyio
async def test_nobody_listens() -> None:
    async with serve([]) as server:
        url = server.url
    client = AnthropicClient(api_key=KEY, base_url=url)
    with pytest.raises(CallFailed, match="the connection failed: ") as info:
        await client.send(REQUEST)
    await client.aclose()
    assert (info.value.error, info.value.retryable) == ("connection", True)


@pytest.mark.anyio
async def test_a_cancelled_call_is_abandoned_and_the_client_lives_on() -> None:
    stalled = [*events(*message("Hello")[:4], end=False), Stall()]
    async with talking(stalled, events(*message("Again"))) as (client, server):
        with anyio.move_on_after(0.3) as scope:
            await client.send(REQUEST)
        assert scope.cancelled_caught
        assert (await client.send(REQUEST)).text == "Again"
    assert len(server.got) == 2


@pytest.mark.anyio
async def test_calls_overlap() -> None:
    texts: list[str] = []

    async def call(client: AnthropicClient) -> None:
        texts.append((await client.send(REQUEST)).text)

    async with (
        talking(events(*message("Hello"))) as (client, server),
        anyio.create_task_group() as group,
    ):
        for _ in range(8):
            group.start_soon(call, client)
    assert texts == ["Hello"] * 8
    assert len(server.got) == 8


@pytest.mark.anyio
async def test_the_papers_model_is_asked_without_a_warning() -> None:
    request = msgspec.structs.replace(REQUEST, model="claude-sonnet-4-20250514")
    assert (await reply_to(events(*message("Hello")), request)).text == "Hello"


@pytest.mark.anyio
async def test_a_closed_client_may_be_used_again() -> None:
    async with talking(events(*message("Hello"))) as (client, _):
        await client.send(REQUEST)
        await client.aclose()
        await client.aclose()
        assert (await client.send(REQUEST)).text == "Hello"


@pytest.mark.anyio
async def test_the_environment_names_key_and_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(events(*message("Hello"))) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        client, model = open_client("anthropic:claude-test")
        assert model == "claude-test"
        assert not client.canned
        assert (await client.send(REQUEST)).text == "Hello"
        await client.aclose()
    assert KEY in str(server.got[0].headers)


def test_a_missing_key_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(KeyMissing, match="set ANTHROPIC_API_KEY"):
        open_client("anthropic:claude-test")
    with pytest.raises(KeyMissing, match="characters that no key has") as info:
        open_client("anthropic:claude-test", api_key="geheim-ü")
    assert "geheim" not in str(info.value)


@pytest.mark.parametrize("spec", ["openly:x", "claude-test", "", "anthropic:", "playbook:"])
def test_unknown_models_are_refused_with_the_known_ones(spec: str) -> None:
    with pytest.raises(ValueError, match="anthropic:MODEL or playbook:FILE"):
        open_client(spec, api_key=KEY)


def test_opening_a_client_does_not_import_the_sdk() -> None:
    code = (
        "import sys; from agents.clients.open import open_client; "
        "open_client('anthropic:m', api_key='k'); "
        "assert not {'anthropic', 'httpx2', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
