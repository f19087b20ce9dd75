"""Any server that speaks OpenAI's chat completions (vLLM, llama.cpp, Ollama, OpenRouter).

Over httpx, streamed. As with every client, a failure is the search's to decide on, and what
a server turned out to refuse is left out the next time: ``temperature``, ``effort``,
``tool_choice``, ``stream_options``; ``tools``, for which JSON of the same schema stands in
(``response_format``), and for that fenced code; and ``max_tokens``, which newer models
call ``max_completion_tokens``, while some servers know the old name only. httpx is imported
at the first call, in a thread. The key is never shown: not in reprs, not in messages.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from agents.clients.event_stream import Nonsense, event_object, read_events
from agents.clients.failures import CONNECT_S, Progress, bad_proxy, one_try
from agents.clients.keys import reply_without
from agents.clients.openai_errors import failure as as_failure
from agents.clients.openai_errors import refusal
from agents.clients.openai_reply import Completion
from agents.clients.pace import allowance_of
from agents.clients.port import CallFailed, CapabilityMissing, Reply, Request, answer_form
from agents.clients.proxies import SOCKET_OPTIONS, proxy_for

if TYPE_CHECKING:
    import httpx

__all__ = ["OPENAI", "OpenAIClient", "checked_url"]

OPENAI = "https://api.openai.com/v1"
"""OpenAI's own server."""


def checked_url(url: str) -> str:
    """``url`` without a final slash. Raises ``ValueError``, which doesn't repeat it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # What is no port there may be a password.
        raise ValueError("the base URL of the openai client is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("the base URL of the openai client must be http(s)://HOST[:PORT]/PATH")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            "the base URL of the openai client must hold no user, password, query or fragment:"
            " it is written to the log; give a key by its environment variable"
        )
    return url.rstrip("/")


class OpenAIClient:
    """Calls ``base_url`` + ``/chat/completions``, with ``api_key`` if there is one.

    ``key_name`` is the variable that the key comes from, for messages. One client belongs
    to one event loop.
    """

    canned = False

    def __init__(
        self, *, base_url: str = OPENAI, api_key: str = "", key_name: str = "OPENAI_API_KEY"
    ) -> None:
        self.base_url = checked_url(base_url)
        self._api_key = api_key
        self._key_name = key_name
        self._http: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"OpenAIClient(base_url={self.base_url!r})"

    async def send(self, request: Request) -> Reply:
        """One request, one try. Raises ``CallFailed`` or ``CapabilityMissing``."""
        http = await self._connected()
        body = _body(request)
        completion = Completion(request.tool.name)
        headers: dict[str, str] = {}
        progress = Progress()
        await one_try(
            self._stream(http, body, request.timeout_s, completion, headers, progress),
            lambda error: as_failure(error, self._api_key, self.base_url),
            used=lambda: completion.usage,
            progress=progress,
            timeout_s=request.timeout_s,
        )
        reply = reply_without(completion.reply(_sent(body)), (self._api_key,))
        return msgspec.structs.replace(reply, allowance=allowance_of(headers, time.time()))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def _connected(self) -> httpx.AsyncClient:
        if self._http is None:
            await anyio.to_thread.run_sync(_import_httpx, abandon_on_cancel=True)
        if self._http is None:  # another call may have been faster
            import httpx

            key = {"authorization": f"Bearer {self._api_key}"} if self._api_key else {}
            # As many connections as calls: how many there are is the search's to say.
            unlimited = httpx.Limits(max_connections=None)
            proxy = proxy_for(self.base_url)
            try:
                transport = httpx.AsyncHTTPTransport(
                    proxy=proxy, limits=unlimited, socket_options=SOCKET_OPTIONS
                )
            except (ImportError, ValueError, httpx.InvalidURL) as error:
                raise bad_proxy(error) from None
            self._http = httpx.AsyncClient(headers=key, transport=transport)
        return self._http

    async def _stream(
        self,
        http: httpx.AsyncClient,
        body: dict[str, Any],
        timeout_s: float,
        into: Completion,
        headers: dict[str, str],
        progress: Progress,
    ) -> CallFailed | CapabilityMissing | None:
        """Read the reply; or return what the server answered instead."""
        import httpx

        url, timeout = (
            f"{self.base_url}/chat/completions",
            httpx.Timeout(timeout_s, connect=CONNECT_S),
        )
        async with http.stream("POST", url, json=body, timeout=timeout) as response:
            if response.status_code != 200:
                said = await response.aread()
                return refusal(
                    response.status_code, said, response.headers, body,
                    api_key=self._api_key, key_name=self._key_name,
                )  # fmt: skip
            headers.update(response.headers)
            progress.answered()
            if response.headers.get("content-type", "").startswith("application/json"):
                # A server that doesn't stream: the whole reply is one event.
                whole = (await response.aread()).decode("utf-8", "replace")
                if event_object(whole) is None:
                    raise Nonsense("it is no JSON object")
                into.add(whole)
            else:
                await read_events(progress.heard(response.aiter_bytes()), into.add)
        return None


def _import_httpx() -> None:
    import httpx  # noqa: F401


def _body(request: Request) -> dict[str, Any]:
    """The request's JSON. The parts are one text: not every server takes a list of them."""
    texts = [part.text for part in request.parts if part.text.strip()]
    refused, params = request.refused, request.params
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [
            {"role": "system", "content": texts[0]},
            {"role": "user", "content": "\n\n".join(texts[1:])},
        ],
        "stream": True,
    }
    limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
    optional = {
        limit: params.max_tokens,
        "temperature": params.temperature,
        "reasoning_effort": None if "effort" in refused else params.effort,
        "stream_options": {"include_usage": True},
        **_answer(request),
    }
    body.update((n, v) for n, v in optional.items() if v is not None and n not in refused)
    return body


def _answer(request: Request) -> dict[str, Any]:
    tool = request.tool
    match answer_form(request.refused):
        case "tool":
            function = {
                "name": tool.name, "description": tool.description, "parameters": tool.schema
            }  # fmt: skip
            return {
                "tools": [{"type": "function", "function": function}],
                "tool_choice": {"type": "function", "function": {"name": tool.name}},
            }
        case "json":
            schema = {"name": tool.name, "schema": tool.schema, "strict": True}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case "fence":
            return {}


def _sent(body: dict[str, Any]) -> dict[str, Any]:
    """What was sent, for the log, without the texts (they are logged as the prompt)."""
    sent = {name: value for name, value in body.items() if name != "messages"}
    if "tools" in sent:
        sent["tools"] = [tool["function"]["name"] for tool in sent["tools"]]
    if "response_format" in sent:
        sent["response_format"] = sent["response_format"]["type"]
    return sent
