"""Chat completions' stream of chunks, put together to one reply."""

from __future__ import annotations

import json
from typing import Any

from agents.clients.event_stream import ErrorEvent, event_object
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
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""DeepSeek's and vLLM's word for a model's thoughts, OpenRouter's, Ollama's."""


class _Call:
    """A tool call as it comes in."""

    def __init__(self, index: Any, id_: str) -> None:
        self.index = index
        self.id = id_
        self.name = ""
        self.arguments: list[str] = []

    @property
    def written(self) -> str:
        return "".join(self.arguments)


class Completion:
    """A reply as it comes in, chunk by chunk. What is not known is passed over."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[_Call] = []
        self._parts: list[dict[str, Any]] = []
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
        event = event_object(data)
        if event is None:
            return
        if event.get("error"):
            raise ErrorEvent(*words_of(event))
        self._model = str(event.get("model") or self._model)
        self.usage = _usage(event.get("usage")) or self.usage
        for choice in _dicts(event.get("choices")):
            if not choice.get("index"):  # others were not asked for
                self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        said = choice.get("delta") or choice.get("message")
        said = said if isinstance(said, dict) else {"content": choice.get("text")}
        self._content(said.get("content"))
        thought = next((said[name] for name in _THOUGHTS if isinstance(said.get(name), str)), "")
        self._thoughts.append(thought)
        if isinstance(said.get("refusal"), str):
            self._refusals.append(said["refusal"])
        for call in _dicts(said.get("tool_calls")):
            self._tool_call(call, call.get("function"))
        self._tool_call({}, said.get("function_call"))
        reason = choice.get("finish_reason")
        if reason:
            self._stop_reason = _STOP_REASONS.get(str(reason), str(reason))
            self._complete = True

    def _content(self, content: Any) -> None:
        """A text, or a list of parts: texts, and thoughts, whose own text may be such a list."""
        if isinstance(content, str):
            self._texts.append(content)
        for part in content if isinstance(content, list) else ():
            if isinstance(part, str):
                self._texts.append(part)
            elif not isinstance(part, dict):
                continue
            elif part.get("type") in ("thinking", "reasoning"):
                thought = part.get("thinking") or part.get("text") or part.get("reasoning")
                inner = _dicts(thought) or [{"text": thought}]
                texts = (each.get("text") for each in inner)
                self._thoughts += [text for text in texts if isinstance(text, str)]
            elif isinstance(part.get("text"), str):
                self._texts.append(part["text"])
            else:
                self._parts.append({"part": json.dumps(part)})

    def _tool_call(self, call: dict[str, Any], function: Any) -> None:
        """Calls are told apart by index; by id as well, for servers that count none."""
        if not isinstance(function, dict):
            return
        index, id_ = call.get("index") or 0, str(call.get("id") or "")
        same = [c for c in self._calls if c.index == index and (not id_ or c.id in ("", id_))]
        if not same:
            same = [_Call(index, id_)]
            self._calls += same
        current = same[-1]
        current.name = current.name or str(function.get("name") or "")
        written = function.get("arguments") or ""
        current.arguments.append(written if isinstance(written, str) else json.dumps(written))

    def reply(self, sent: dict[str, Any]) -> Reply:
        """The whole reply; a stream that ended early is a lost connection."""
        if not self._complete:
            why = "the stream ended before the reply did"
            raise CallFailed("connection", why, retryable=True, usage=self.usage)
        tool_input, others = None, []
        for call in self._calls:
            given = json_object(call.written) if call.name == self._tool else None
            if given is not None and tool_input is None:
                tool_input = given
            else:
                others.append({"name": call.name, "arguments": call.written})
        text = "".join(self._texts)
        if self._refusals:
            text = f"{text}\n{''.join(self._refusals)}".strip()
        return Reply(
            text=storable_json(text),
            tool_input=tool_input,
            thoughts=storable_json("".join(self._thoughts)),
            others=tuple(storable_json([*others, *self._parts])),
            usage=self.usage,
            stop_reason="refusal" if self._refusals else self._stop_reason,
            served_by=self._model,
            sent=sent,
        )


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The objects in a list, if it is one."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _usage(said: Any) -> Usage | None:
    """The server's counts; its prompt tokens include those that its cache had."""
    if not isinstance(said, dict) or not isinstance(said.get("prompt_tokens"), int):
        return None
    details, written = said.get("prompt_tokens_details"), said.get("completion_tokens")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    cached = cached if isinstance(cached, int) else 0
    return Usage(
        input_tokens=max(said["prompt_tokens"] - cached, 0),
        output_tokens=written if isinstance(written, int) else 0,
        cache_read_tokens=cached,
    )
