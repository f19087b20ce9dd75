"""The words of chat completions: chunks, whole replies, errors."""

from __future__ import annotations

import json
from typing import Any

from .model_server import Script, response, stream

__all__ = ["chunks", "completion", "error"]

_FINISH = {
    "end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length",
    "refusal": "content_filter",
}  # fmt: skip


def chunks(*bodies: dict[str, Any], end: bool = True) -> Script:
    """A 200 with these chunks."""
    lines = [*map(json.dumps, bodies), *(["[DONE]"] if end else [])]
    return stream(*(f"data: {line}\n\n".encode() for line in lines), end=end)


def completion(
    *blocks: str | dict[str, Any],
    stop: str = "end_turn",
    model: str = "test-1",
    piece: int = 7,
    usage: bool = True,
) -> list[dict[str, Any]]:
    """The chunks of a whole reply: texts, and tool calls as {name, json}."""
    found = [_chunk(model, {"role": "assistant", "content": ""})]
    for index, block in enumerate(blocks):
        text = block if isinstance(block, str) else block["json"]
        if isinstance(block, dict):
            function = {"name": block["name"], "arguments": ""}
            call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
            found.append(_chunk(model, {"tool_calls": [call]}))
        elif index:
            found.append(_chunk(model, {"content": "\n\n"}))
        for at in range(0, len(text), piece):
            part: dict[str, Any] = {"content": text[at : at + piece]}
            if isinstance(block, dict):
                arguments = {"arguments": text[at : at + piece]}
                part = {"tool_calls": [{"index": index, "function": arguments}]}
            found.append(_chunk(model, part))
    found.append(_chunk(model, {}, _FINISH.get(stop, stop)))
    if usage:
        counted = {
            "prompt_tokens": 311, "completion_tokens": 42, "total_tokens": 353,
            "prompt_tokens_details": {"cached_tokens": 300},
        }  # fmt: skip
        found.append({"id": "c", "model": model, "choices": [], "usage": counted})
    return found


def _chunk(model: str, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": model, "choices": [choice],
            "usage": None}  # fmt: skip


def error(status: int, kind: str, text: str, **headers: str) -> Script:
    """An error response as OpenAI words it."""
    body = {"error": {"message": text, "type": kind, "param": None, "code": None}}
    return response(status, json.dumps(body).encode(), **headers)
