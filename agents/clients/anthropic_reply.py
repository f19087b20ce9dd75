"""The Messages API's stream of events, put together to one reply."""

from __future__ import annotations

import json
from typing import Any

from agents.clients.event_stream import ErrorEvent
from agents.clients.port import CallFailed, Reply
from agents.clients.structured import json_object, storable_json
from events.bodies import Usage

__all__ = ["Message"]


class Message:
    """A reply as it comes in, event by event."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._texts: list[str] = []
        self._json: list[str] = []
        self._input: dict[str, Any] | None = None
        self._tool_index = -1
        self._found = False
        self._usage: dict[str, int] = {}
        self._model = ""
        self._stop_reason = "unknown"
        self._complete = False

    def add(self, data: str) -> None:
        """Take in one event. Kinds that are not known are passed over, as the API asks."""
        event = json.loads(data)
        kind = event["type"]
        if kind == "message_start":
            self._model = str(event["message"].get("model") or "")
            self._count(event["message"].get("usage"))
        elif kind == "content_block_start":
            self._open(event["index"], event["content_block"])
        elif kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                self._texts.append(str(delta["text"]))
            elif delta["type"] == "input_json_delta" and event["index"] == self._tool_index:
                self._json.append(str(delta["partial_json"]))
        elif kind == "message_delta":
            self._stop_reason = str(event["delta"].get("stop_reason") or self._stop_reason)
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self._complete = True
        elif kind == "error":
            error = event.get("error") or {}
            raise ErrorEvent(str(error.get("type", "")), str(error.get("message", "")))

    def add_whole(self, message: dict[str, Any]) -> None:
        """Take in a message that did not come as a stream."""
        end = {"stop_reason": message.get("stop_reason")}
        events = [
            {"type": "message_start", "message": message},
            *(
                {"type": "content_block_start", "index": index, "content_block": block}
                for index, block in enumerate(message["content"])
            ),
            {"type": "message_delta", "delta": end},
            {"type": "message_stop"},
        ]
        for event in events:
            self.add(json.dumps(event))

    def _open(self, index: int, block: dict[str, Any]) -> None:
        if block["type"] == "text":
            self._texts += ["\n\n"] if self._texts else []
            self._texts.append(str(block.get("text") or ""))
        elif block["type"] == "tool_use" and block["name"] == self._tool and not self._found:
            self._tool_index, self._found = index, True
            given = block.get("input")
            self._input = given if isinstance(given, dict) and given else None

    def _count(self, usage: dict[str, Any] | None) -> None:
        for field, value in (usage or {}).items():
            if isinstance(value, int):
                self._usage[field] = value

    def reply(self, sent: dict[str, Any]) -> Reply:
        """The whole reply; a stream that ended early is a lost connection."""
        if not self._complete:
            why = "the stream ended before the message did"
            raise CallFailed("connection", why, retryable=True, usage=self.usage)
        text = "".join(self._texts)
        tool_input = self._input
        written = "".join(self._json)
        if written:
            tool_input = json_object(written)
            if tool_input is None:
                # Unusable, but it was paid for: kept where the log shows it.
                text = f"{text}\n{written}".strip()
        return Reply(
            text=storable_json(text),
            tool_input=storable_json(tool_input),
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
