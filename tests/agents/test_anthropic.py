"""What only the Anthropic client does; what it shares is in test_clients."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from agents.clients.anthropic import AnthropicClient
from agents.clients.open import KeyMissing, open_client
from agents.clients.port import CallFailed, CapabilityMissing, Reply, Request
from agents.replies.parse import Parsed, parse
from events.bodies import CallParams, Usage

from .dialects import CLOUDS, DIALECTS, KEY, Dialect
from .messages_api import error, events, message
from .model_server import ModelServer, serve
from .sources import KERNEL, TASK
from .test_clients import REQUEST, TOOL

ANSWER = {"name": "code", "json": json.dumps({"explanation": "é", "source": KERNEL})}


@asynccontextmanager
async def talking(*scripts: Any) -> AsyncIterator[tuple[AnthropicClient, ModelServer]]:
    async with serve(*scripts) as server:
        client = AnthropicClient(api_key=KEY, base_url=server.url)
        try:
            yield client, server
        finally:
            await client.aclose()


async def reply_to(script: Any, request: Request = REQUEST) -> Reply:
    async with talking(script) as (client, _):
        return await client.send(request)


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
            "model": "test-model",
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
        "model": "test-model",
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


def test_a_password_in_the_url_is_not_shown() -> None:
    shown = repr(AnthropicClient(api_key=KEY, base_url="https://me:geheim@host/v"))
    assert shown == "AnthropicClient(base_url='https://…@host/v')"


@pytest.mark.anyio
async def test_thinking_and_other_tools_are_passed_over() -> None:
    other = {"name": "other", "json": "{}"}
    reply = await reply_to(events(*message({"thinking": "hm"}, other, ANSWER)))
    assert reply.tool_input == {"explanation": "é", "source": KERNEL}
    assert reply.text == ""


THOUGHTFUL = msgspec.structs.replace(
    REQUEST, params=CallParams(temperature=0.1, effort="low", max_tokens=4096, thinking=2048)
)
BUDGET = {"type": "enabled", "budget_tokens": 2048}
FORCED, FREE = {"type": "tool", "name": "code"}, {"type": "auto"}


@pytest.mark.anyio
@pytest.mark.parametrize("api", [DIALECTS[0], *CLOUDS], ids=lambda api: str(api.name))
async def test_a_budget_of_thinking_leaves_the_form_of_the_answer_to_the_model(
    api: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    script = api.reply({"thinking": "```\nclass ModelNew"}, f"Why.\n```python\n{KERNEL}```")
    async with serve(script) as server:
        client = api.client(server.url)
        reply = await client.send(THOUGHTFUL)
        await client.aclose()
    body = server.got[0].body
    assert (body["thinking"], body["tool_choice"]) == (BUDGET, FREE)
    assert (reply.sent["thinking"], reply.sent["tool_choice"]) == (BUDGET, FREE)
    assert "temperature" not in body
    assert body["max_tokens"] == 4096
    assert body["output_config"] == {"effort": "low"}
    assert [tool["name"] for tool in body["tools"]] == ["code"]
    assert "ModelNew" not in reply.text.partition("```")[0], "what it thought is no answer"
    parsed = parse("code", reply, TASK)
    assert isinstance(parsed, Parsed)
    assert (parsed.source, parsed.via) == (KERNEL, "fence")
    assert reply.usage is not None
    assert reply.usage.output_tokens == 42


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("refused", "thinking", "choice", "temperature"),
    [
        ([], BUDGET, FREE, None),
        (["budget_tokens"], {"type": "adaptive"}, FREE, None),
        (["budget_tokens", "thinking"], None, FORCED, 0.1),
        (["thinking"], None, FORCED, 0.1),
        (["thinking", "temperature"], None, FORCED, None),
        (["tool_choice"], BUDGET, None, None),
    ],
)
async def test_who_does_not_think_so_is_asked_otherwise(
    refused: list[str], thinking: Any, choice: Any, temperature: float | None
) -> None:
    request = msgspec.structs.replace(THOUGHTFUL, refused=frozenset(refused))
    async with talking(events(*message("x"))) as (client, server):
        reply = await client.send(request)
    for sent in (server.got[0].body, reply.sent):
        assert sent.get("thinking") == thinking
        assert sent.get("tool_choice") == choice
        assert sent.get("temperature") == temperature


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "refused", "param"),
    [
        (
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive"'
            ' and "output_config.effort" to control thinking behavior.',
            [],
            "budget_tokens",
        ),
        ("claude-3-5-sonnet-20241022 does not support thinking.", [], "thinking"),
        ("thinking: Extra inputs are not permitted", [], "thinking"),
        ("adaptive thinking is not supported on this model", ["budget_tokens"], "thinking"),
        ("This model does not support the effort parameter.", [], "effort"),
        ("`max_tokens` must be greater than `thinking.budget_tokens`.", [], None),
        (
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
            [],
            None,
        ),
    ],
)
async def test_how_a_model_thinks_is_learned(
    text: str, refused: list[str], param: str | None
) -> None:
    request = msgspec.structs.replace(THOUGHTFUL, refused=frozenset(refused))
    async with talking(error(400, "invalid_request_error", text)) as (client, _):
        with pytest.raises(CapabilityMissing if param else CallFailed) as info:
            await client.send(request)
    if isinstance(info.value, CapabilityMissing):
        assert info.value.param == param
    else:
        assert (info.value.error, info.value.retryable) == ("bad_request", False)


@pytest.mark.anyio
async def test_a_model_that_should_think_its_own_way_is_asked_without_a_warning() -> None:
    request = msgspec.structs.replace(THOUGHTFUL, model="claude-opus-4-6")
    assert (await reply_to(events(*message("Hello")), request)).text == "Hello"


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
async def test_the_papers_model_is_asked_without_a_warning() -> None:
    request = msgspec.structs.replace(REQUEST, model="claude-sonnet-4-20250514")
    assert (await reply_to(events(*message("Hello")), request)).text == "Hello"


@pytest.mark.anyio
async def test_the_environment_names_key_and_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(events(*message("Hello"))) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        client, model = open_client("anthropic:test-model")
        assert model == "test-model"
        assert not client.canned
        assert (await client.send(REQUEST)).text == "Hello"
        await client.aclose()
    assert KEY in str(server.got[0].headers)


def test_a_missing_key_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(KeyMissing, match="set ANTHROPIC_API_KEY"):
        open_client("anthropic:test-model")
    with pytest.raises(KeyMissing, match="characters that no key has") as info:
        open_client("anthropic:test-model", api_key="geheim-ü")
    assert "geheim" not in str(info.value)


@pytest.mark.parametrize(
    "spec", ["openly:x", "test-model", "", "anthropic:", "mailbox:", "playbook:"]
)
def test_unknown_models_are_refused_with_the_known_ones(spec: str) -> None:
    with pytest.raises(ValueError, match=r"anthropic:MODEL, .*, playbook:FILE or recorded:LOG"):
        open_client(spec, api_key=KEY)


@pytest.mark.process
def test_opening_a_client_does_not_import_the_sdk() -> None:
    code = (
        "import sys; from agents.clients.open import open_client; "
        "open_client('anthropic:m', api_key='k'); "
        "assert not {'anthropic', 'httpx2', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
