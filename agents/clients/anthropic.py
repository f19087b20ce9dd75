"""Anthropic's Messages API through the official SDK, streamed.

The SDK's retries are off: each failure becomes a ``CallFailed`` for the search to decide
on. A parameter that a model turned out to refuse is left out the next time (``temperature``,
``effort``, ``thinking`` or its ``budget_tokens``, and ``tool_choice``: newer models always
think). It is not sent at all to a model that is known to refuse it (``agents.models``). A model
that thinks can't be forced to use a tool and has no temperature, so a request that tells a model
to think leaves the answer's form to it; text with fenced code is read as well.
The SDK takes over a second to import, so that happens at the first call, in a thread. It
runs on asyncio and on trio alike. The key is never shown: not in reprs, not in messages.
"""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from agents.clients.anthropic_errors import KEY_NAME
from agents.clients.anthropic_errors import failure as as_failure
from agents.clients.anthropic_reply import Message
from agents.clients.event_stream import read_events
from agents.clients.failures import CONNECT_S, Progress, bad_proxy, one_try
from agents.clients.keys import header_secrets, reply_without, url_secrets
from agents.clients.pace import allowance_of
from agents.clients.port import CallFailed, CapabilityMissing, Reply, Request
from agents.clients.proxies import SOCKET_OPTIONS, proxy_for
from agents.models import known_refusals

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicClient", "request_body", "sent_of"]


class AnthropicClient:
    """Calls the Messages API at ``base_url`` with ``api_key``.

    Without arguments they come from ``ANTHROPIC_API_KEY`` and ``ANTHROPIC_BASE_URL``.
    One client belongs to one event loop.
    """

    canned = False
    hint = f"check {KEY_NAME}"
    """What to do where the server does not let us in."""

    def __init__(self, *, api_key: str | None = None, base_url: str | None = None) -> None:
        given = api_key if api_key is not None else os.environ.get(KEY_NAME, "")
        self._api_key = given.strip()
        self.base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
        # The SDK sends these headers with every request, to clouds as well.
        self._headers = header_secrets(os.environ.get("ANTHROPIC_CUSTOM_HEADERS", ""))
        self._sdk: AsyncAnthropic | None = None

    @property
    def _secrets(self) -> tuple[str, ...]:
        """What requests carry and a server may repeat."""
        return self._api_key, *self._headers, *url_secrets(self.base_url)

    def __repr__(self) -> str:
        shown = re.sub(r"//[^/@]*@", "//…@", self.base_url) if self.base_url else None
        return f"{type(self).__name__}(base_url={shown!r})"

    async def send(self, request: Request) -> Reply:
        """One request, one try. Raises ``CallFailed`` or ``CapabilityMissing``."""
        sdk = await self._connected()
        body = request_body(request)
        message = Message(request.tool.name)
        headers: dict[str, str] = {}
        progress = Progress()
        await one_try(
            self._stream(sdk, body, request.timeout_s, message, headers, progress),
            lambda error: self._failure(error, body),
            used=lambda: message.usage,
            progress=progress,
            timeout_s=request.timeout_s,
        )
        reply = reply_without(message.reply(sent_of(body)), self._secrets)
        return msgspec.structs.replace(reply, allowance=allowance_of(headers, time.time()))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._sdk is not None:
            await self._sdk.close()
            self._sdk = None

    async def _connected(self) -> AsyncAnthropic:
        if self._sdk is None:
            await anyio.to_thread.run_sync(_import_sdk, abandon_on_cancel=True)
        if self._sdk is None:  # another call may have been faster
            self._sdk = self._new_sdk()
        return self._sdk

    def _new_sdk(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(
            api_key=self._api_key,
            base_url=self.base_url,
            max_retries=0,
            http_client=self._http(self.base_url or "https://api.anthropic.com"),
        )

    def _http(self, url: str) -> Any:
        """The HTTP client of the SDK, through the proxy that ``url`` has. Raises ``CallFailed``."""
        import httpx2
        from anthropic import DefaultAsyncHttpxClient

        proxy, unlimited = proxy_for(url), httpx2.Limits(max_connections=None)
        try:
            transport = httpx2.AsyncHTTPTransport(
                proxy=proxy, limits=unlimited, socket_options=SOCKET_OPTIONS
            )
        except (ImportError, ValueError, httpx2.InvalidURL) as error:
            raise bad_proxy(error) from None
        return DefaultAsyncHttpxClient(transport=transport)

    async def _stream(
        self,
        sdk: AsyncAnthropic,
        body: dict[str, Any],
        timeout_s: float,
        message: Message,
        headers: dict[str, str],
        progress: Progress,
    ) -> None:
        import httpx2

        # The SDK's signature has no temperature any more; the API has, for some models.
        arguments = dict(body)
        extra = {"temperature": arguments.pop("temperature")} if "temperature" in body else None
        timeout = httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S))
        # The command line says itself which models are about to be retired.
        warnings.filterwarnings("ignore", "The model '.*' is deprecated", DeprecationWarning)
        # So are budgets of thinking, of some models that still take them.
        warnings.filterwarnings("ignore", "Using Claude with .* is deprecated", UserWarning)
        stream = await sdk.messages.create(
            **arguments, stream=True, extra_body=extra, timeout=timeout
        )
        headers.update(stream.response.headers)
        progress.answered()
        async with stream:
            if headers.get("content-type", "").startswith("application/json"):
                # What does not stream: the whole message is one event.
                message.add((await stream.response.aread()).decode("utf-8", "replace"))
                return
            await read_events(progress.heard(self._chunks(stream)), message.add)

    def _chunks(self, stream: Any) -> AsyncIterator[bytes]:
        """The response's body."""
        chunks: AsyncIterator[bytes] = stream.response.aiter_bytes()
        return chunks

    def _failure(
        self, error: Exception, body: dict[str, Any]
    ) -> CallFailed | CapabilityMissing | None:
        return as_failure(error, body, self._secrets, self.hint)


def _import_sdk() -> None:
    import anthropic  # noqa: F401


def request_body(request: Request) -> dict[str, Any]:
    """The request's JSON, with the cacheable prefix marked at the last stable part."""
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": part.text} for part in request.parts if part.text.strip()
    ]
    stable = [part.stable for part in request.parts if part.text.strip()]
    if any(stable):
        last = len(stable) - 1 - stable[::-1].index(True)
        blocks[last]["cache_control"] = {"type": "ephemeral"}
    tool = request.tool
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.params.max_tokens,
        "system": blocks[:1],
        "messages": [{"role": "user", "content": blocks[1:]}],
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        ],
    }
    refused = request.refused | known_refusals(request.model)
    thinking = _thinking(request, refused)
    if thinking is not None:
        body["thinking"] = thinking
    if "tool_choice" not in refused:
        forced = {"type": "tool", "name": tool.name}
        body["tool_choice"] = forced if thinking is None else {"type": "auto"}
    if request.params.effort is not None and "effort" not in refused:
        body["output_config"] = {"effort": request.params.effort}
    temperature = request.params.temperature if thinking is None else None
    if temperature is not None and "temperature" not in refused:
        body["temperature"] = temperature
    return body


def _thinking(request: Request, refused: frozenset[str]) -> dict[str, Any] | None:
    """How the model is told to think, if it is. Newer ones take no budget: how much they think
    is up to them and to ``effort``."""
    budget = request.params.thinking
    if budget is msgspec.UNSET or "thinking" in refused:
        return None
    if "budget_tokens" in refused:
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": budget}


def sent_of(body: dict[str, Any]) -> dict[str, Any]:
    """What was sent, for the log, without the texts (they are logged as the prompt)."""
    sent = {name: value for name, value in body.items() if name not in ("system", "messages")}
    return {**sent, "tools": [tool["name"] for tool in body["tools"]], "stream": True}
