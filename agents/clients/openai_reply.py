"""Chat completions' stream of chunks, put together to one reply."""

from __future__ import annotations

import json
from typing import Any

from agents.clients.event_stream import ErrorEvent
from agents.clients.openai_errors import words_of
from agents.clients.port import CallFailed, Reply
from agents.clients.structured import json_object, storable_json
from events.bodies import Usage

__all__ = ["Completion"]

_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""In the port's words."""


class Completion:
    """A reply as it comes in, chunk by chunk. What is not known is passed over."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._arguments: list[str] = []
        self._call: tuple[int, str] | None = None
        self.usage: Usage | None = None
        """What the server has reported so far: most do at the end, some with each chunk."""
        self._model = ""
        self._stop_reason = "unknown"
        self._complete = False

    def add(self, data: str) -> None:
        """Take in one event; a reply that is not streamed is one."""
        if data == "[DONE]":
            self._complete = True
            return
        event = json.loads(data)
        if event.get("error"):
            raise ErrorEvent(*words_of(event))
        self._model = str(event.get("model") or self._model)
        self.usage = _usage(event.get("usage")) or self.usage
        for choice in event.get("choices") or ():
            self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        said = choice.get("delta") or choice.get("message") or {}
        if isinstance(said.get("content"), str):
            self._texts.append(said["content"])
        if isinstance(said.get("refusal"), str):
            self._refusals.append(said["refusal"])
        for call in said.get("tool_calls") or ():
            self._tool_call(call)
        reason = choice.get("finish_reason")
        if reason:
            self._stop_reason = _STOP_REASONS.get(str(reason), str(reason))
            self._complete = True

    def _tool_call(self, call: dict[str, Any]) -> None:
        """Calls are told apart by index; by id as well, for servers that count none."""
        function, index, id_ = call["function"], call.get("index") or 0, call.get("id")
        if self._call is None and function.get("name") == self._tool:
            self._call = (index, id_ or "")
        if self._call is None or index != self._call[0] or (id_ and id_ != self._call[1]):
            return
        written = function.get("arguments") or ""
        self._arguments.append(written if isinstance(written, str) else json.dumps(written))

    def reply(self, sent: dict[str, Any]) -> Reply:
        """The whole reply; a stream that ended early is a lost connection."""
        if not self._complete:
            why = "the stream ended before the reply did"
            raise CallFailed("connection", why, retryable=True, usage=self.usage)
        text, written = "".join(self._texts), "".join(self._arguments)
        tool_input = json_object(written)
        if tool_input is None and written:
            # Unusable, but it was paid for: kept where the log shows it.
            text = f"{text}\n{written}".strip()
        if self._refusals:
            text = f"{text}\n{''.join(self._refusals)}".strip()
        return Reply(
            text=storable_json(text),
            tool_input=tool_input,
            usage=self.usage,
            stop_reason="refusal" if self._refusals else self._stop_reason,
            served_by=self._model,
            sent=sent,
        )


def _usage(said: Any) -> Usage | None:
    """The server's counts; its prompt tokens include those that its cache had."""
    if not isinstance(said, dict) or not isinstance(said.get("prompt_tokens"), int):
        return None
    cached = (said.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(
        input_tokens=max(said["prompt_tokens"] - cached, 0),
        output_tokens=said.get("completion_tokens") or 0,
        cache_read_tokens=cached,
    )
