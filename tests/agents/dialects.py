"""The APIs that clients speak, behind one face: what one test says to both."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Protocol

import msgspec

from agents.clients.anthropic import AnthropicClient
from agents.clients.clouds import BedrockClient, VertexClient
from agents.clients.openai import OpenAIClient
from agents.clients.port import Client

from . import bedrock_api, completions_api, messages_api
from .model_server import Got, Script, response

__all__ = ["CLOUDS", "DIALECTS", "KEY", "Dialect", "Wire", "tool"]

KEY = "sk-secret-0123456789"


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """A request as any API has it. ``user`` is the user message's text."""

    model: str
    system: str
    user: str
    temperature: float | None
    max_tokens: int
    tool: str | None
    """The tool that the model has to answer through; None if there is none."""
    key: str


class Dialect(Protocol):
    name: str
    hint: str
    """What to do when it lets nobody in."""

    def client(self, url: str) -> Client: ...

    def reply(self, *blocks: Any, stop: str = "end_turn", piece: int = 500) -> Script:
        """A whole reply of texts, and tool uses as {name, json}."""
        ...

    def begun(self, text: str) -> Script:
        """A reply that has begun."""
        ...

    def broken(self, text: str) -> Script:
        """A reply that has begun, and then the API's own error."""
        ...

    def error(self, status: int, text: str, **headers: str) -> Script: ...

    def wire(self, got: Got) -> Wire: ...


class _Anthropic:
    name = "anthropic"
    hint = "check ANTHROPIC_API_KEY"

    def client(self, url: str) -> Client:
        return AnthropicClient(api_key=KEY, base_url=url)

    def reply(self, *blocks: Any, stop: str = "end_turn", piece: int = 500) -> Script:
        return messages_api.events(*messages_api.message(*blocks, stop=stop, piece=piece))

    def begun(self, text: str) -> Script:
        return messages_api.events(*messages_api.message(text, piece=500)[:4], end=False)

    def broken(self, text: str) -> Script:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": text}}
        return messages_api.events(*messages_api.message("Hello")[:4], error, end=False)

    def error(self, status: int, text: str, **headers: str) -> Script:
        kinds = {
            400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
            403: "permission_error", 404: "not_found_error", 408: "timeout_error",
            413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error",
            529: "overloaded_error",
        }  # fmt: skip
        return messages_api.error(status, kinds.get(status, "api_error"), text, **headers)

    def wire(self, got: Got) -> Wire:
        assert got.line.startswith("POST /v1/messages ")
        return _messages_wire(got.body["model"], got)


def _messages_wire(model: str, got: Got) -> Wire:
    body = got.body
    (message,) = body["messages"]
    assert message["role"] == "user"
    return Wire(
        model=model,
        system="\n\n".join(block["text"] for block in body["system"]),
        user="\n\n".join(block["text"] for block in message["content"]),
        temperature=body.get("temperature"),
        max_tokens=body["max_tokens"],
        tool=body.get("tool_choice", {}).get("name"),
        key=got.headers.get("x-api-key", got.headers.get("authorization", "")).removeprefix(
            "Bearer "
        ),
    )


class _OpenAI:
    name = "openai"
    hint = "check OPENAI_API_KEY"

    def client(self, url: str) -> Client:
        return OpenAIClient(api_key=KEY, base_url=url + "/v1/")

    def reply(self, *blocks: Any, stop: str = "end_turn", piece: int = 500) -> Script:
        return completions_api.chunks(*completions_api.completion(*blocks, stop=stop, piece=piece))

    def begun(self, text: str) -> Script:
        whole = completions_api.completion(text, piece=500)
        return completions_api.chunks(*whole[:2], end=False)

    def broken(self, text: str) -> Script:
        error = {"error": {"message": text, "type": "overloaded", "code": 529}}
        return completions_api.chunks(*completions_api.completion("Hi")[:2], error, end=False)

    def error(self, status: int, text: str, **headers: str) -> Script:
        return completions_api.error(status, "some_error", text, **headers)

    def wire(self, got: Got) -> Wire:
        assert got.line.startswith("POST /v1/chat/completions ")
        body = got.body
        system, user = body["messages"]
        assert (system["role"], user["role"]) == ("system", "user")
        return Wire(
            model=body["model"],
            system=system["content"],
            user=user["content"],
            temperature=body.get("temperature"),
            max_tokens=body.get("max_completion_tokens") or body["max_tokens"],
            tool=body.get("tool_choice", {}).get("function", {}).get("name"),
            key=got.headers["authorization"].removeprefix("Bearer "),
        )


class _Vertex(_Anthropic):
    name = "vertex"
    hint = "check your Google credentials"

    def client(self, url: str) -> Client:
        return VertexClient(base_url=url, region="us-east5", project="p", access_token=KEY)

    def wire(self, got: Got) -> Wire:
        place = "/projects/p/locations/us-east5/publishers/anthropic/models/"
        found = re.match(f"POST {place}(.+):streamRawPredict ", got.line)
        assert found
        assert got.body["anthropic_version"]
        return _messages_wire(found[1], got)


class _Bedrock(_Anthropic):
    """With a bearer token, which is read from the environment."""

    name = "bedrock"
    hint = "check your AWS credentials"

    def client(self, url: str) -> Client:
        assert os.environ["AWS_BEARER_TOKEN_BEDROCK"] == KEY
        return BedrockClient(base_url=url, region="us-east-1")

    def reply(self, *blocks: Any, stop: str = "end_turn", piece: int = 500) -> Script:
        return bedrock_api.frames(*messages_api.message(*blocks, stop=stop, piece=piece))

    def begun(self, text: str) -> Script:
        return bedrock_api.frames(*messages_api.message(text, piece=500)[:4], end=False)

    def broken(self, text: str) -> Script:
        begun = bedrock_api.frames(*messages_api.message("Hello")[:4], end=False)
        return [*begun, bedrock_api.exception("serviceUnavailableException", text)]

    def error(self, status: int, text: str, **headers: str) -> Script:
        return response(status, json.dumps({"message": text}).encode(), **headers)

    def wire(self, got: Got) -> Wire:
        found = re.match("POST /model/(.+)/invoke-with-response-stream ", got.line)
        assert found
        assert got.body["anthropic_version"]
        return _messages_wire(found[1], got)


def tool(name: str, **answer: str) -> dict[str, str]:
    """A tool use for ``Dialect.reply``."""
    return {"name": name, "json": json.dumps(answer)}


DIALECTS: tuple[Dialect, ...] = (_Anthropic(), _OpenAI())
CLOUDS: tuple[Dialect, ...] = (_Bedrock(), _Vertex())
"""The first dialect's words at other places."""
