"""The Messages API's stream of events, put together to one reply."""

from __future__ import annotations

import json
from typing import Any

from agents.clients.event_stream import ErrorEvent, event_object
from agents.clients.port import CallFailed, Reply
from agents.clients.structured import json_object, storable_json
from events.bodies import Usage

__all__ = ["Message"]


class _Use:
    """A tool's use as it comes in."""

    def __init__(self, block: dict[str, Any]) -> None:
        self.name = str(block.get("name") or "")
        self.given = block.get("input")
        self.json: list[str] = []

    @property
    def written(self) -> str:
        return "".join(self.json) or json.dumps(self.given or {})


class Message:
    """A reply as it comes in, event by event. What is not known is passed over."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._uses: dict[int, _Use] = {}
        self._usage: dict[str, int] = {}
        self._model = ""
        self._stop_reason = "unknown"
        self._complete = False

    def add(self, data: str) -> None:
        """Take in one event. Kinds that are not known are passed over, as the API asks."""
        event = event_object(data)
        if event is None:
            return
        kind = event.get("type")
        if kind == "message_start":
            message = _dict(event.get("message"))
            self._model = str(message.get("model") or "")
            self._count(message.get("usage"))
        elif kind == "content_block_start":
            self._open(event.get("index"), _dict(event.get("content_block")))
        elif kind == "content_block_delta":
            self._delta(event.get("index"), _dict(event.get("delta")))
        elif kind == "message_delta":
            reason = _dict(event.get("delta")).get("stop_reason")
            self._stop_reason = str(reason or self._stop_reason)
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self._complete = True
        elif kind == "message":  # a server that does not stream
            self.add_whole(event)
        elif kind == "error":
            error = _dict(event.get("error"))
            raise ErrorEvent(str(error.get("type", "")), str(error.get("message", "")))

    def add_whole(self, message: dict[str, Any]) -> None:
        """Take in a message that did not come as a stream."""
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        self._model = str(message.get("model") or "")
        self._count(message.get("usage"))
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            self._open(index, _dict(block))
        self._stop_reason = str(message.get("stop_reason") or self._stop_reason)
        self._complete = True

    def _open(self, index: Any, block: dict[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self._texts += ["\n\n"] if self._texts else []
            self._texts.append(str(block.get("text") or ""))
        elif kind == "thinking":
            self._thoughts += ["\n\n"] if self._thoughts else []
            self._thoughts.append(str(block.get("thinking") or ""))
        elif kind == "tool_use":
            self._uses[index] = _Use(block)

    def _delta(self, index: Any, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self._texts.append(str(delta.get("text") or ""))
        elif kind == "thinking_delta":
            self._thoughts.append(str(delta.get("thinking") or ""))
        elif kind == "input_json_delta" and index in self._uses:
            self._uses[index].json.append(str(delta.get("partial_json") or ""))

    def _count(self, usage: Any) -> None:
        for field, value in _dict(usage).items():
            if isinstance(value, int):
                self._usage[field] = value

    def reply(self, sent: dict[str, Any]) -> Reply:
        """The whole reply; a stream that ended early is a lost connection."""
        if not self._complete:
            why = "the stream ended before the message did"
            raise CallFailed("connection", why, retryable=True, usage=self.usage)
        tool_input, others = None, []
        for use in self._uses.values():
            given = json_object(use.written) if use.name == self._tool else None
            if given and tool_input is None:
                tool_input = given
            else:
                others.append({"name": use.name, "arguments": use.written})
        return Reply(
            text=storable_json("".join(self._texts)),
            tool_input=tool_input,
            thoughts=storable_json("".join(self._thoughts)),
            others=tuple(storable_json(others)),
            usage=self.usage,
            stop_reason=self._stop_reason,
            served_by=self._model,
            sent=sent,
        )

    @property
    def usage(self) -> Usage | None:
        """What the API has reported so far: what went in with the message's start, what came
        out at its end. None before there was anything."""
        if not self._usage:
            return None
        return Usage(
            input_tokens=self._usage.get("input_tokens", 0),
            output_tokens=self._usage.get("output_tokens", 0),
            cache_read_tokens=self._usage.get("cache_read_input_tokens", 0),
            cache_write_tokens=self._usage.get("cache_creation_input_tokens", 0),
        )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
