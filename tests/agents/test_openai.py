"""What only the client of chat completions does; what it shares is in test_clients."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from agents.clients.open import KeyMissing, open_client
from agents.clients.openai import OpenAIClient, checked_url
from agents.clients.port import CallFailed, CapabilityMissing, Client, Reply, Request
from agents.prices import price_of
from agents.replies.parse import Parsed, parse
from events.bodies import CallParams, Usage

from .completions_api import chunks, completion
from .dialects import KEY
from .model_server import ModelServer, Script, response, serve
from .sources import KERNEL, TASK
from .test_clients import ANSWER, REQUEST, TOOL

FUNCTION = {"name": "code", "description": "Hand it in.", "parameters": TOOL.schema}


async def sent_for(*scripts: Script, request: Request = REQUEST) -> tuple[ModelServer, Reply]:
    async with serve(*scripts) as server:
        client = OpenAIClient(base_url=server.url, api_key=KEY)
        try:
            return server, await client.send(request)
        except (CallFailed, CapabilityMissing) as error:
            failure = error  # the server's task group would wrap it
        finally:
            await client.aclose()
    raise failure


def without(*refused: str) -> Request:
    return msgspec.structs.replace(REQUEST, refused=frozenset(refused))


@pytest.mark.anyio
async def test_what_goes_over_the_wire_and_into_the_log() -> None:
    server, reply = await sent_for(chunks(*completion("Here:", ANSWER, stop="tool_use")))
    common = {
        "model": "test-model", "max_tokens": 1234, "temperature": 0.1, "reasoning_effort": "low",
        "stream": True, "stream_options": {"include_usage": True},
        "tool_choice": {"type": "function", "function": {"name": "code"}},
    }  # fmt: skip
    (got,) = server.got
    assert got.line.startswith("POST /chat/completions ")
    assert got.headers["authorization"] == f"Bearer {KEY}"
    assert got.body == {
        **common,
        "messages": [
            {"role": "system", "content": "You are fast."},
            {"role": "user", "content": "Like so.\n\nThis one.\n\nFrom here.\n\nGo."},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
    }
    assert reply.sent == {**common, "tools": ["code"]}
    assert reply.usage == Usage(input_tokens=11, output_tokens=42, cache_read_tokens=300)
    assert (reply.served_by, reply.stop_reason) == ("test-1", "tool_use")


@pytest.mark.anyio
async def test_what_was_refused_is_left_out_or_stood_in_for() -> None:
    fine = chunks(*completion("x"))
    request = without("temperature", "effort", "tool_choice", "stream_options", "max_tokens")
    server, reply = await sent_for(fine, request=request)
    names = {"model", "messages", "stream", "tools", "max_completion_tokens"}
    assert set(server.got[0].body) == names
    assert set(reply.sent) == names - {"messages"}
    server, _ = await sent_for(fine, request=without("max_tokens", "max_completion_tokens"))
    assert not {"max_tokens", "max_completion_tokens"} & set(server.got[0].body)

    server, reply = await sent_for(fine, request=without("tools"))
    body = server.got[0].body
    schema = {"name": "code", "schema": TOOL.schema, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert not {"tools", "tool_choice"} & set(body)
    assert reply.sent["response_format"] == "json_schema"
    server, _ = await sent_for(fine, request=without("tools", "response_format"))
    assert not {"tools", "tool_choice", "response_format"} & set(server.got[0].body)


@pytest.mark.anyio
async def test_parameters_that_nobody_asked_for_are_not_sent() -> None:
    request = msgspec.structs.replace(REQUEST, params=CallParams(max_tokens=5))
    server, _ = await sent_for(chunks(*completion("x")), request=request)
    assert not {"temperature", "reasoning_effort"} & set(server.got[0].body)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "text", [json.dumps({"explanation": "é", "source": KERNEL}),
             "<think>Hm: ```x```</think>\n```json\n" + json.dumps({"source": KERNEL}) + "\n```"],
)  # fmt: skip
async def test_json_in_the_text_is_an_answer(text: str) -> None:
    _, reply = await sent_for(chunks(*completion(text)), request=without("tools"))
    assert (reply.text, reply.tool_input) == (text, None)
    parsed = parse("code", reply, TASK)
    assert isinstance(parsed, Parsed)
    assert (parsed.via, parsed.source) == ("json", KERNEL)


@pytest.mark.anyio
async def test_a_server_that_does_not_stream() -> None:
    function = {"name": "code", "arguments": json.dumps({"source": KERNEL})}
    message = {"content": None, "tool_calls": [{"id": "1", "function": function}]}
    whole = {"model": "m", "choices": [{"message": message, "finish_reason": "tool_calls"}]}
    _, reply = await sent_for(response(200, json.dumps(whole).encode()))
    assert reply.tool_input == {"source": KERNEL}
    assert reply.usage is None, "none was reported"


@pytest.mark.anyio
async def test_a_refusal_is_one() -> None:
    said = {"choices": [{"delta": {"refusal": "I can't."}, "finish_reason": "stop"}]}
    _, reply = await sent_for(chunks(said))
    assert (reply.stop_reason, reply.text) == ("refusal", "I can't.")


def _error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


USE_NEW = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."  # noqa: E501
ONLY_DEFAULT = "Unsupported value: 'temperature' does not support 0.8 with this model. Only the default (1) value is supported."  # noqa: E501
NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
NO_ENDPOINT = "No endpoints found that support tool use."
NOT_STREAMING = [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]


REFUSALS: list[tuple[int, dict[str, Any], tuple[str, ...], str]] = [
    (400, _error(USE_NEW, param="max_tokens", code="unsupported_parameter"), (), "max_tokens"),
    (400, _error(ONLY_DEFAULT, code="unsupported_value"), (), "temperature"),
    (400, _error("registry.ollama.ai/library/x:latest does not support tools"), (), "tools"),
    (500, _error("tools param requires --jinja flag", code=500), (), "tools"),
    (500, _error("Unsupported param: tools", code=500), (), "tools"),
    (400, {"object": "error", "message": NO_PARSER, "code": 400}, ("tool_choice",), "tools"),
    (404, _error(NO_ENDPOINT, code=404), (), "tools"),
    (400, _error("Thinking mode does not support this tool_choice"), (), "tool_choice"),
    (400, _error("This response_format type is unavailable now"), ("tools",),
     "response_format"),
    (422, {"detail": NOT_STREAMING}, (), "stream_options"),
    (400, {"error": "Unrecognized request argument supplied: reasoning_effort"}, (), "effort"),
    (400, _error("Provider returned error",
                 metadata={"raw": "temperature is not supported"}), (), "temperature"),
]  # fmt: skip
LIMITS = [
    _error("max_tokens is too large: 16000. This model supports at most 4096 completion tokens,"
           " whereas you provided 16000.", param="max_tokens", code="invalid_value"),
    _error("`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens`"
           " is less than the `context_window` for this model"),
    _error("Invalid max_tokens value, the valid range of max_tokens is [1, 4096]"),
]  # fmt: skip
COMPLAINTS = [
    (400, _error("max_tokens is too large for this model, unsupported_value"), "bad_request"),
    (400, _error("This model's maximum context length is 8192 tokens. However, you requested"
                 " 20000 tokens"), "too_large"),
    (400, _error("the request exceeds the available context size",
                 type="exceed_context_size_error"), "too_large"),
    (429, _error("You exceeded your current quota", code="insufficient_quota"),
     "unauthorized"),
    (500, _error("the tool server fell over"), "server_error"),
]  # fmt: skip


@pytest.mark.anyio
async def test_each_servers_words_for_what_it_does_not_take() -> None:
    scripts = [response(status, json.dumps(body).encode()) for status, body, *_ in REFUSALS]
    async with serve(*scripts) as server:
        client = OpenAIClient(base_url=server.url)
        for _, _, refused, param in REFUSALS:
            with pytest.raises(CapabilityMissing) as info:
                await client.send(without(*refused))
            assert info.value.param == param, info.value.message
        await client.aclose()


@pytest.mark.anyio
async def test_each_servers_words_for_the_longest_reply() -> None:
    scripts = [response(400, json.dumps(body).encode()) for body in LIMITS]
    async with serve(*scripts) as server:
        client = OpenAIClient(base_url=server.url)
        for _ in LIMITS:
            with pytest.raises(CapabilityMissing) as info:
                await client.send(REQUEST)
            assert (info.value.param, info.value.limit) == ("max_tokens", 4096)
        await client.aclose()


@pytest.mark.anyio
async def test_other_complaints_teach_nothing() -> None:
    scripts = [response(status, json.dumps(body).encode()) for status, body, _ in COMPLAINTS]
    async with serve(*scripts) as server:
        client = OpenAIClient(base_url=server.url)
        for _, _, word in COMPLAINTS:
            with pytest.raises(CallFailed) as info:
                await client.send(REQUEST)
            failed = info.value
            assert (failed.error, failed.retryable) == (word, word == "server_error")
        await client.aclose()


@pytest.mark.anyio
async def test_no_key_is_sent_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("MY_KEY", KEY)
    denied = response(401, json.dumps(_error("who are you?")).encode())
    async with serve(denied) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1/")
        client, model = open_client("openai:org/model:free")
        assert (model, client.canned) == ("org/model:free", False)
        with pytest.raises(CallFailed, match=r"no key was sent: set OPENAI_API_KEY"):
            await client.send(REQUEST)
        await client.aclose()
        assert "authorization" not in server.got[0].headers
        client = _opened(base_url=server.url, key_name="MY_KEY")
        with pytest.raises(CallFailed, match=r"check MY_KEY"):
            await client.send(REQUEST)
        await client.aclose()
    assert server.got[1].headers["authorization"] == f"Bearer {KEY}"
    assert server.got[0].line.startswith("POST /v1/chat/completions ")


def _opened(**settings: str) -> Client:
    return open_client("openai:m", **settings).client


def test_a_missing_key_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KeyMissing, match=r"set OPENAI_API_KEY; or .*clients\.openai\.base_url="):
        _opened()


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host/v1", "http://", "http://a:b@host/v1", "http://h:0",
            "https://host/v1?api-key=geheim", "http://[::1", "http://host:99999/"],
)  # fmt: skip
def test_a_url_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="base URL") as info:
        _opened(base_url=url)
    assert "geheim" not in str(info.value)
    assert "a:b" not in str(info.value)


def test_a_key_in_the_place_of_its_name_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="name of a variable") as info:
        _opened(key_name=KEY)
    assert KEY not in str(info.value)


@pytest.mark.anyio
async def test_a_whole_reply_that_makes_no_sense() -> None:
    for body in (b"[1]", b"{", b"[" * 100_000):
        with pytest.raises(CallFailed, match="makes no sense"):
            await sent_for(response(200, body))


def test_a_url_is_taken_as_it_is() -> None:
    assert checked_url("https://host:1/api/v1/") == "https://host:1/api/v1"


def test_what_another_server_takes_for_a_model_is_not_known() -> None:
    assert price_of("anthropic:claude-sonnet-4-5") is not None
    assert price_of("openai:claude-sonnet-4-5") is None


@pytest.mark.process
def test_opening_a_client_does_not_import_httpx() -> None:
    code = (
        "import sys; from agents.clients.open import open_client; "
        "open_client('openai:m', api_key='k'); "
        "assert not {'httpx', 'httpcore', 'ssl'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
